"""The client and the command line run with the packages of the base installation alone."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.sound_files import SOUND_FILES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_ON_WINDOWS = ("fcntl", "grp", "pwd", "resource", "termios")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to `antiphon` and to the packages that its base installation needs."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "antiphon").symlink_to(ROOT / "antiphon")
    about = folder / f"antiphon-{PROJECT['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: antiphon\nVersion: {PROJECT['version']}\n")
    for package in needed(PROJECT["dependencies"]).values():
        files = [file for file in package.files or () if file.parts[0] not in ("..", "__pycache__")]
        for top in {file.parts[0] for file in files}:
            (folder / top).symlink_to(Path(str(package.locate_file(top))))
    return folder


def needed(requirements: list[str]) -> dict[str, Distribution]:
    """The installed packages that these requirements need here, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(line, "") for line in requirements]
    while waiting:
        line, extra = waiting.pop()
        need = Requirement(line)
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        if name in found or (need.marker and not need.marker.evaluate({"extra": extra})):
            continue
        found[name] = distribution(name)
        waiting += [
            (each, extra) for extra in need.extras or {""} for each in found[name].requires or ()
        ]
    return found


def run(base: Path, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`python WORDS` without the packages of this environment."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
    return subprocess.run(
        [sys.executable, "-S", "-P", *words],
        cwd=folder,
        env={**env, "PYTHONPATH": str(base), "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("words", [("--help",), ("talk", "--help")])
def test_the_command_line_explains_itself(base: Path, words: tuple[str, ...]) -> None:
    shown = run(base, "-m", "antiphon", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "antiphon" in shown.stdout


def test_the_package_has_a_version(base: Path) -> None:
    shown = run(base, "-c", "import antiphon; print(antiphon.__version__)")
    assert (shown.stdout, shown.stderr) == (f"{PROJECT['version']}\n", "")


def test_the_client_is_imported_as_on_windows(base: Path) -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({NOT_ON_WINDOWS!r}));"
        "import antiphon, antiphon.cli.conversation.dialogue;"
        "[getattr(antiphon, name) for name in antiphon.__all__];"
        "from antiphon import Client; Client('ws://127.0.0.1:8006')"
    )
    shown = run(base, "-c", code)
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize("command", ["up", "edge", "queue", "doctor"])
def test_commands_of_the_services_name_the_extra(base: Path, command: str, tmp_path: Path) -> None:
    shown = run(base, "-m", "antiphon", command, folder=tmp_path)
    assert shown.returncode == 78
    assert shown.stderr.count("\n") == 1
    assert (
        "which is not installed; run: pip install '.[server]' in Antiphon's checkout"
        in shown.stderr
    )


def test_talk_reaches_for_the_edge_without_more_packages(base: Path, tmp_path: Path) -> None:
    """Port 9 refuses, after the bundled question was read."""
    shown = run(base, "-m", "antiphon", "talk", "--url", "ws://127.0.0.1:9", folder=tmp_path)
    assert shown.returncode == 1
    assert "127.0.0.1:9" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_recordings_of_an_edge_need_no_more_packages(base: Path, tmp_path: Path) -> None:
    words = ("-m", "antiphon", "recordings", "list")
    shown = run(base, *words, "--url", "ws://127.0.0.1:9", folder=tmp_path)
    assert (shown.returncode, "is `antiphon up` running?" in shown.stderr) == (1, True)
    assert "'.[server]'" in run(base, *words, folder=tmp_path).stderr


def test_other_sound_files_name_the_extra(base: Path, tmp_path: Path) -> None:
    (tmp_path / "memo.m4a").write_bytes(SOUND_FILES["AAC in MP4"].make())
    words = ("talk", "memo.m4a", "--url", "ws://127.0.0.1:9")
    shown = run(base, "-m", "antiphon", *words, folder=tmp_path)
    assert shown.returncode == 1
    assert "install the extra `audio`, such as by pip install '.[audio]'" in shown.stderr
