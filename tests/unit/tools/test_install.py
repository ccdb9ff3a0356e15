"""Installation: when it is repeated, and the messages when something is missing."""

import errno
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import install
from install import ROOT, CannotInstall, main


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The extras of each simulated installation."""
    done: list[list[str]] = []

    def installed(folder: Path, extras: list[str]) -> None:
        folder.mkdir(exist_ok=True)
        done.append(extras)

    monkeypatch.setattr(install, "_install", installed)
    monkeypatch.setattr(install, "_require_openmp", lambda: None)
    return done


def test_the_second_run_installs_nothing(tmp_path: Path, installs: list[list[str]]) -> None:
    for _ in range(2):
        assert main(tmp_path / "venv", ["local"]) == 0
    assert installs == [["local"]]


def test_more_extras_are_added_to_the_installed_ones(
    tmp_path: Path, installs: list[list[str]]
) -> None:
    for extras in (["local"], ["local", "test"], ["local"]):
        assert main(tmp_path / "venv", extras) == 0
    assert installs == [["local"], ["local", "test"]]


def test_a_changed_lock_installs_again(
    tmp_path: Path, installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(tmp_path / "venv", ["local"]) == 0
    changed = tmp_path / "uv.lock"
    changed.write_text("version = 1\n")
    monkeypatch.setattr(install, "LOCK", changed)
    assert main(tmp_path / "venv", ["local"]) == 0
    assert installs == [["local"], ["local"]]


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_an_unreadable_stamp_counts_as_none(
    tmp_path: Path, installs: list[list[str]], content: bytes
) -> None:
    assert main(tmp_path / "venv", ["local"]) == 0
    (tmp_path / "venv" / "antiphon-installed").write_bytes(content)
    for _ in range(2):
        assert main(tmp_path / "venv", ["local"]) == 0
    assert installs == [["local"], ["local"]]


def test_a_disk_that_fills_up_at_the_end_leaves_the_old_stamp(
    tmp_path: Path, installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(path: Path, text: str) -> int:
        path.write_bytes(text[: len(text) - 3].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    assert main(tmp_path / "venv", ["local"]) == 0
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", cut)
        with pytest.raises(OSError, match="No space left"):
            main(tmp_path / "venv", ["local", "test"])
    assert main(tmp_path / "venv", ["web"]) == 0
    assert installs == [["local"], ["local", "test"], ["local", "web"]]


def test_a_failure_leaves_no_stamp_and_prints_the_remedy(
    tmp_path: Path,
    installs: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(_folder: Path, _extras: list[str]) -> None:
        raise CannotInstall("run: apt-get install -y something")

    monkeypatch.setattr(install, "_install", fails)
    assert main(tmp_path / "venv", ["local"]) == 1
    assert "apt-get install -y something" in capsys.readouterr().err
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(("extra", "needs"), [("local", 0.7), ("minicpmo", 3.2), ("token2wav", 6)])
def test_a_full_disk_is_named_before_anything_is_downloaded(
    extra: str,
    needs: float,
    tmp_path: Path,
    installs: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def has(free: float) -> None:
        usage = SimpleNamespace(free=free * 1e9)
        monkeypatch.setattr(install.shutil, "disk_usage", lambda _: usage)

    has(needs - 0.1)
    assert main(tmp_path / "venv", ["server", extra]) == 1
    assert f"need {needs:g} GB of disk, but {tmp_path} has" in capsys.readouterr().err
    assert installs == []
    has(needs)
    assert main(tmp_path / "venv", ["server", extra]) == 0


def test_only_ci_installs_packages_of_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(install, "OPENMP", "libno-such-library.so.1")
    monkeypatch.setattr("subprocess.run", called)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("CI", raising=False)
    assert main(tmp_path / "venv", ["local"]) == 1
    assert "run: apt-get install -y libgomp1" in capsys.readouterr().err


def test_the_vocoder_is_installed_next_to_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And torch apart from the locked files, because a build without CUDA has another hash."""
    done: list[tuple[str, ...]] = []
    exported: list[tuple[str, ...]] = []

    def export(_uv: object, name: str, *options: str) -> Path:
        exported.append((name, *options))
        (tmp_path / name).write_text("numpy==1\ntorch==2.13.0 ; sys_platform == 'linux'\n")
        return tmp_path / name

    monkeypatch.setattr(install, "find_uv", Path)
    monkeypatch.setattr(install, "_has_pip", lambda _folder: True)
    monkeypatch.setattr("install.Uv.export", export)
    monkeypatch.setattr("install.Uv.install", lambda _uv, *what: done.append(what))
    install._install(tmp_path, ["local", "test-minicpmo"])
    assert [what[-1] for what in done] == [
        *(str(tmp_path / "packages"), "torch==2.13.0", str(tmp_path / "vocoder"))
    ]
    assert done[-1][:2] == ("--target", str(tmp_path / "share" / "token2wav"))
    assert exported[0][-2:] == ("--prune", "torch")
    assert exported[2] == ("vocoder", "--only-group", "vocoder")


def test_a_python_that_is_too_old_is_reported_with_the_command() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "CANDIDATES=no-such-python", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.returncode != 0
    assert "Python 3.11, 3.12, 3.13 or 3.14 is required" in shown.stderr
    assert "apt-get install -y python3" in shown.stderr


def test_make_help_lists_the_targets() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[1] for line in shown.stdout.splitlines()][:4] == [
        "help",
        "demo",
        "up",
        "web",
    ]
