"""How uv is found or fetched, and which settings it gets."""

import hashlib
import os
import platform
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import uv_program
from uv_program import VERSION, NoUv, find_uv, uv_environment

WHEEL = f"uv-{VERSION}-py3-none-manylinux_2_17_{platform.machine()}.whl"


@pytest.fixture
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither files nor variables of pip or uv."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("configparser.RawConfigParser.read", lambda _parser, _paths: [])


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings: None) -> None:
    """A Python without pip, and no uv on PATH."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(uv_program, "FOLDER", tmp_path / ".uv")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an index that has a wheel of uv; its program is a script."""
    folder = tmp_path / "simple" / "uv"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(f"uv-{VERSION}.data/scripts/uv", f"#!/bin/sh\necho uv {VERSION}\n")
    link(folder, hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest())

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


def link(folder: Path, sha256: str) -> None:
    other = f"uv-{VERSION}-py3-none-manylinux_2_17_s390.whl"
    links = [f'<a href="../uv/{name}#sha256={sha256}">{name}</a>' for name in (other, WHEEL)]
    (folder / "index.html").write_text("\n".join(links))


def test_without_pip_the_program_comes_from_the_wheel(debian: None, index: Path) -> None:
    program = find_uv()
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"uv {VERSION}\n"
    (index / WHEEL).unlink()
    assert find_uv() == program  # without the index


def test_a_wheel_with_another_hash_is_refused(debian: None, index: Path) -> None:
    link(index, "0" * 64)
    with pytest.raises(NoUv, match="has another hash than the index says"):
        find_uv()


def test_without_pip_and_network_the_packages_of_debian_are_named(
    debian: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(NoUv, match=r"apt-get install -y ca-certificates python3\.\d+-venv"):
        find_uv()


def test_the_uv_on_path_is_taken_if_it_is_recent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\necho uv 99.0.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_uv() == program


def test_settings_of_pip_reach_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings: None
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} /no/such/folder https://wheels.example/")
    monkeypatch.setenv("PIP_CERT", "/company.pem")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "7")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    env = uv_environment()
    assert env["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert env["UV_FIND_LINKS"] == f"{tmp_path},https://wheels.example/"
    assert env["SSL_CERT_FILE"] == "/company.pem"
    assert env["UV_HTTP_TIMEOUT"] == "7"
    assert env["UV_PYTHON_DOWNLOADS"] == "never"


def test_files_of_pip_are_read_and_variables_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://a.example/simple\nproxy = http://p:3128\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert uv_environment()["UV_DEFAULT_INDEX"] == "https://a.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://b.example/simple")
    assert uv_environment()["UV_DEFAULT_INDEX"] == "https://b.example/simple"
