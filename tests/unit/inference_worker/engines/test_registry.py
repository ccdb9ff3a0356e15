"""Engines of other packages, and the example of docs/write-an-engine.md as it is printed."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.factory import build_processor, check_engine
from antiphon.inference_worker.engines.registry import GROUP, engine_names, find_engine
from antiphon.inference_worker.engines.types import EngineLoadError

ROOT = Path(__file__).parents[4]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, package: str, points: dict[str, str]) -> None:
    """The metadata of a package with these entry points."""
    folder = site / f"{package.replace('-', '_')}-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (folder / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))


def test_the_built_in_engines_need_no_metadata() -> None:
    assert {"backend", "local", "minicpmo", "simulated"} <= set(engine_names())


def test_engines_of_other_packages_are_listed(site: Path) -> None:
    install(site, "some-engines", {"one": "absent_module:PLUGIN"})
    assert "one" in engine_names()
    with pytest.raises(EngineLoadError, match="one of: backend, local, minicpmo, one, simulated"):
        find_engine("two")


def test_a_package_cannot_replace_a_built_in_engine(site: Path) -> None:
    install(site, "some-engines", {"simulated": "absent_module:PLUGIN"})
    assert build_processor("simulated").info.name == "simulated"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("absent_module:PLUGIN", "absent_module:PLUGIN of the engine 'one' cannot be imported"),
        ("pathlib:PLUGIN", "pathlib:PLUGIN of the engine 'one' cannot be imported"),
        ("pathlib:Path", "pathlib:Path is no EnginePlugin"),
    ],
)
def test_a_broken_entry_point_is_named(site: Path, value: str, words: str) -> None:
    install(site, "some-engines", {"one": value})
    with pytest.raises(EngineLoadError, match=words):
        check_engine("one", slots=1, model_path=None, options={})


def test_an_engine_without_a_model_refuses_a_path() -> None:
    with pytest.raises(EngineLoadError, match="takes no --model-path"):
        build_processor("simulated", model_path=Path("/models"))


@pytest.mark.extended
def test_the_documented_engine(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "write-an-engine.md").read_text()
    blocks = re.findall(r"^```(?:toml|python)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    project, module, test = blocks
    declared = tomllib.loads(project)["project"]
    install(tmp_path, declared["name"], declared["entry-points"][GROUP])
    (tmp_path / "antiphon_echo.py").write_text(module)
    (tmp_path / "test_echo.py").write_text(test)
    printed = run(tmp_path, "-m", "pytest", "-q", "-rs", "test_echo.py")
    assert "10 passed, 14 skipped" in printed
    for reason in ("does not serve half_duplex", "does not serve chat", "does not greet"):
        assert f"echo {reason}" in printed
    assert "<backend|echo|local|" in run(tmp_path, "-m", "antiphon", "worker", "--help")


def test_the_documented_package_can_be_installed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Beside its test: setuptools refuses a folder with several modules unless they are named."""
    page = (ROOT / "docs" / "write-an-engine.md").read_text()
    [project] = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "pyproject.toml").write_text(project)
    for name in ("antiphon_echo.py", "test_echo.py"):
        (tmp_path / name).touch()
    built = tmp_path_factory.mktemp("built")
    build = f"from setuptools import build_meta as it; it.prepare_metadata_for_build_wheel({str(built)!r})"
    run(tmp_path, "-c", build)
    [modules] = built.glob("*.dist-info/top_level.txt")
    assert modules.read_text() == "antiphon_echo\n"


def run(folder: Path, *arguments: str) -> str:
    """What Python prints with the packages of `folder`."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
