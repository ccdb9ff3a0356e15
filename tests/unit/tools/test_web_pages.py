"""When the pages are built again, and with which Node.js."""

import json
from pathlib import Path

import pytest

from nodejs import new_enough
from web_pages import WEB, fingerprint, installed


@pytest.fixture
def web(tmp_path: Path) -> Path:
    (tmp_path / "src" / "ui").mkdir(parents=True)
    (tmp_path / "src" / "ui" / "a.ts").write_text("1")
    (tmp_path / "index.html").write_text("<html>")
    (tmp_path / "package-lock.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("v20.19.0\n", True),
        ("v20.18.9", False),
        ("v21.7.3", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.0.0", True),
        ("v18.20.4", False),
        ("", False),
    ],
)
def test_node_must_be_a_version_that_vite_supports(version: str, fits: bool) -> None:
    assert new_enough(version) is fits


@pytest.mark.parametrize("name", ["src/ui/a.ts", "index.html", "package-lock.json", "src/new.css"])
def test_a_changed_source_changes_the_fingerprint(web: Path, name: str) -> None:
    before = fingerprint(web)
    (web / name).write_text("2")
    assert fingerprint(web) != before


@pytest.mark.parametrize("name", ["src/ui/a.test.ts", "README.md", "node_modules/lit/index.js"])
def test_a_file_outside_the_pages_does_not_change_the_fingerprint(web: Path, name: str) -> None:
    before = fingerprint(web)
    (web / name).parent.mkdir(parents=True, exist_ok=True)
    (web / name).write_text("2")
    assert fingerprint(web) == before


def test_a_moved_source_changes_the_fingerprint(web: Path) -> None:
    before = fingerprint(web)
    (web / "src" / "ui" / "a.ts").rename(web / "src" / "ui" / "b.ts")
    assert fingerprint(web) != before


def _lock(folder: Path, name: str, **packages: dict[str, object]) -> None:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    entries = {f"node_modules/{package}": row for package, row in packages.items()}
    file.write_text(json.dumps({"packages": {"": {}, **entries}}))


def test_packages_are_current_when_npm_installed_these_versions(tmp_path: Path) -> None:
    assert not installed(_locked(tmp_path, lit="3.3.3"), development=False)
    there = "node_modules/.package-lock.json"
    _lock(tmp_path, there, lit={"version": "3.3.2"})
    assert not installed(tmp_path, development=False)
    _lock(tmp_path, there, lit={"version": "3.3.3"})
    assert installed(tmp_path, development=False)


def test_development_tools_are_required_only_where_they_are_used(tmp_path: Path) -> None:
    _lock(
        tmp_path,
        "package-lock.json",
        lit={"version": "3"},
        biome={"version": "2", "dev": True},
        mac={"version": "1", "optional": True},
    )
    _lock(tmp_path, "node_modules/.package-lock.json", lit={"version": "3"})
    assert installed(tmp_path, development=False)
    assert not installed(tmp_path, development=True)


def _locked(folder: Path, **versions: str) -> Path:
    rows: dict[str, dict[str, object]] = {name: {"version": v} for name, v in versions.items()}
    _lock(folder, "package-lock.json", **rows)
    return folder


def test_the_lock_file_works_on_every_machine_and_registry() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert not [name for name, row in packages.items() if "resolved" in row]
    missing = {
        f"{name} needs {wanted}"
        for name, row in packages.items()
        for wanted in row.get("optionalDependencies", {})
        if f"node_modules/{wanted}" not in packages
    }
    assert missing == set()
