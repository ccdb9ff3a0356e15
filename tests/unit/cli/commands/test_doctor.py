"""How `antiphon doctor` checks this machine: disk, ports, certificates, engines."""

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest
import trustme
import typer

from antiphon.broker.service.listening import CannotListen
from antiphon.cli.commands.doctor import (
    doctor,
    examine_access,
    examine_certificate,
    examine_disk,
    examine_open_files,
    examine_ports,
    examine_privacy,
    examine_python,
    show_findings,
)
from antiphon.cli.commands.up import plan_from, run_stack
from antiphon.cli.local_recordings import file_sizes
from antiphon.cli.stack.stack import StackPlan
from antiphon.cli.stack.stack_file import StackFile, publish_stack
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.factory import examine_engine
from antiphon.shared_schemas.findings import Finding, FindingStatus, ok, warning
from support.users import folder_of_another_user


def by_name(findings: Iterator[Finding] | list[Finding]) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings}


def test_this_python_is_a_tested_one() -> None:
    assert examine_python().verdict is FindingStatus.OK


def test_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    findings = by_name(examine_disk(tmp_path / "a" / "b", max_storage_gb=0))
    assert findings["recordings"].found.endswith("sessions (to be made)")
    assert {finding.verdict for finding in findings.values()} == {FindingStatus.OK}
    assert not (tmp_path / "a").exists()


def test_a_folder_without_write_access() -> None:
    finding = by_name(examine_disk(Path("/proc"), 0))["recordings"]  # not even for root
    assert finding.verdict is FindingStatus.FAILURE
    assert "ANTIPHON_DATA_DIR" in finding.remedy


def test_the_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with suppress(typer.Exit):
        doctor(engine="simulated", as_json=True)  # imports what another user may not read
    capsys.readouterr()
    with folder_of_another_user(Path("data")), pytest.raises(typer.Exit):
        doctor(engine="simulated", as_json=True)
    findings = {one["about"]: one for one in orjson.loads(capsys.readouterr().out)}
    for about, words in (("redis", "data/stack.json: Permission denied"), ("recordings", "/data:")):
        assert findings[about]["verdict"] == FindingStatus.FAILURE
        assert words in findings[about]["found"]


def test_a_folder_inside_one_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As /root/data is for another user: all checks run."""
    monkeypatch.chdir(tmp_path)
    with suppress(typer.Exit):
        doctor(engine="simulated", as_json=True)
    before = {one["about"] for one in orjson.loads(capsys.readouterr().out)}
    with folder_of_another_user(Path("closed")), pytest.raises(typer.Exit):
        doctor(engine="simulated", data_dir=Path("closed/data"), as_json=True)
    findings = {one["about"]: one for one in orjson.loads(capsys.readouterr().out)}
    assert before - findings.keys() <= {"redis version"}
    assert "engine" in " ".join(findings)
    assert findings["recordings"]["verdict"] == FindingStatus.FAILURE


def test_a_file_at_the_path_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(NotADirectoryError):
        (tmp_path / "data" / "sessions").mkdir()
    finding = by_name(examine_disk(tmp_path / "data", 0))["recordings"]
    assert finding.verdict is FindingStatus.FAILURE


def test_recordings_that_other_users_can_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert examine_privacy(data).verdict is FindingStatus.OK
    data.mkdir()
    data.chmod(0o755)
    assert examine_privacy(data) == ok("privacy of the data", f"nothing in {data} yet")
    (data / "sessions").mkdir()
    (data / "sessions").chmod(0o755)
    finding = examine_privacy(data)
    assert finding.verdict is FindingStatus.WARNING
    assert finding.remedy == f"chmod -R go-rwx {data / 'sessions'}"
    (data / "sessions").chmod(0o700)
    assert examine_privacy(data).verdict is FindingStatus.OK
    (data / "sessions").chmod(0o755)
    data.chmod(0o700)
    assert examine_privacy(data).verdict is FindingStatus.OK


def test_files_that_are_deleted_while_their_sizes_are_read(tmp_path: Path) -> None:
    """A recorder deletes its working files."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("1", "2"):
            (tmp_path / folder / name).write_bytes(bytes(10))
    sizes = file_sizes(tmp_path)
    first = next(sizes)
    for folder in ("a", "b"):
        shutil.rmtree(tmp_path / folder)
    assert [first, *sizes] == [first]


def test_a_size_limit_larger_than_the_disk(tmp_path: Path) -> None:
    finding = by_name(examine_disk(tmp_path, max_storage_gb=1e9))["disk space"]
    assert finding.verdict is FindingStatus.WARNING
    assert "ANTIPHON_MAX_STORAGE_GB" in finding.remedy


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Logs nothing."""


@pytest.fixture
def service_port() -> Iterator[int]:
    """The port of a service that answers on /health."""
    with HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def port_finding(plan: StackPlan) -> Finding:
    return by_name(examine_ports(plan))["port of the worker's health page"]


def test_a_port_that_another_program_uses(tmp_path: Path) -> None:
    plan = StackPlan(data_dir=tmp_path, host="127.0.0.1", port=0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plan = replace(plan, health_port=port_of(listener))
        finding = port_finding(plan)
    assert finding.verdict is FindingStatus.FAILURE
    assert "--health-port" in finding.found
    finding = port_finding(plan)
    assert finding.found.endswith("is free")


def test_a_port_of_a_program_that_does_not_speak_http(tmp_path: Path) -> None:
    def greet(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.sendall(b"220 mail\r\n")
            connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        plan = StackPlan(data_dir=tmp_path, host="127.0.0.1", port=0, health_port=port_of(listener))
        finding = port_finding(plan)
        thread.join()
    assert finding.verdict is FindingStatus.FAILURE


def test_a_port_of_another_stack_is_refused_as_up_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service_port: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for port in ("PORT", "EDGE_HEALTH_PORT", "RECORDER_HEALTH_PORT", "CLEANUP_HEALTH_PORT"):
        monkeypatch.setenv(f"ANTIPHON_{port}", "0")
    plan = plan_from(redis_url=None, redis_port=0, health_port=service_port)
    with pytest.raises(CannotListen) as refused:
        run_stack(plan)
    finding = port_finding(plan)
    assert (finding.verdict, finding.found) == (FindingStatus.FAILURE, str(refused.value))
    plan = plan_from(redis_url="redis://127.0.0.1:1", redis_port=0, health_port=service_port)
    finding = port_finding(plan)
    assert finding.verdict is FindingStatus.WARNING
    assert str(refused.value) in finding.found


def test_the_ports_of_a_running_stack_are_those_where_it_listens(tmp_path: Path) -> None:
    """Not those of the settings: the stack may have been started with others."""
    plan = StackPlan(data_dir=tmp_path, host="127.0.0.1", port=8006, health_port=22400)
    file = StackFile(pid=os.getpid(), redis_url="redis://127.0.0.1:1", edge_url="ws://127.0.0.1:1")
    worker = subprocess.Popen(
        [sys.executable, "-c", SERVICE, "antiphon.inference_worker"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with publish_stack(tmp_path) as publish, worker:
        assert worker.stdout is not None
        port = int(worker.stdout.readline())
        publish(file)
        findings = by_name(examine_ports(plan))
        assert findings["port of the worker"] == ok(
            "port of the worker", f"127.0.0.1:{port}, where the stack of this folder answers"
        )
        assert findings["port of the edge"].verdict is FindingStatus.WARNING
        publish(replace(file, ready=True))
        findings = by_name(examine_ports(plan))
        assert findings["port of the worker"].verdict is FindingStatus.OK
        assert findings["port of the edge"].verdict is FindingStatus.FAILURE
        assert f"logs edge --data-dir {tmp_path}" in findings["port of the edge"].remedy
        worker.terminate()


SERVICE = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Healthy)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_any_free_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service_port: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_RECORDER_HEALTH_PORT", str(service_port))
    findings = by_name(
        examine_ports(plan_from(redis_url=None, redis_port=0, port=0, health_port=0))
    )
    assert {finding.found for finding in findings.values()} == {"any free one"}


@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({}, FindingStatus.OK, "only this machine"),
        ({"host": "0.0.0.0"}, FindingStatus.WARNING, "everyone who reaches 0.0.0.0 may connect"),
        ({"host": "0.0.0.0", "api_keys": "k" * 16}, FindingStatus.OK, "need a key"),
        ({"api_keys_file": "/absent"}, FindingStatus.FAILURE, "/absent cannot be read"),
    ],
)
def test_access_to_the_edge(settings: dict[str, str], verdict: FindingStatus, words: str) -> None:
    finding = examine_access(EdgeSettings(**settings))  # type: ignore[arg-type]
    assert (finding.verdict, words in finding.found) == (verdict, True), finding


def test_the_stack_of_this_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    url = "ws://127.0.0.1:8123"
    with (
        publish_stack(tmp_path / "data") as publish,
        suppress(typer.Exit),
    ):
        publish(StackFile(pid=os.getpid(), redis_url="redis://127.0.0.1:1", edge_url=url))
        doctor(engine="simulated")
    assert f"runs in this folder at {url}" in capsys.readouterr().out


def certificate(folder: Path, name: str, days: int) -> tuple[Path, Path]:
    """A certificate of `voice.example` with its key; `days` may be negative."""
    made, key = (folder / f"{name}.{kind}" for kind in ("pem", "key"))
    end = datetime.now(UTC) + timedelta(days=days)
    issued = trustme.CA().issue_cert("voice.example", not_after=end)
    issued.cert_chain_pems[0].write_to_path(made)
    issued.private_key_pem.write_to_path(key)
    return made, key


class TestCertificates:
    def test_a_valid_certificate(self, tmp_path: Path) -> None:
        finding = examine_certificate(*certificate(tmp_path, "good", 90))
        assert finding.verdict is FindingStatus.OK
        assert finding.found.startswith("voice.example; valid for ")

    def test_a_certificate_that_expires_soon(self, tmp_path: Path) -> None:
        finding = examine_certificate(*certificate(tmp_path, "old", 3))
        assert finding.verdict is FindingStatus.WARNING

    def test_an_expired_certificate(self, tmp_path: Path) -> None:
        finding = examine_certificate(*certificate(tmp_path, "over", -1))
        assert finding.verdict is FindingStatus.FAILURE
        assert "expired" in finding.found

    def test_a_certificate_with_another_key(self, tmp_path: Path) -> None:
        (mine, _), (_, other) = certificate(tmp_path, "a", 90), certificate(tmp_path, "b", 90)
        finding = examine_certificate(mine, other)
        assert finding.verdict is FindingStatus.FAILURE
        assert "private key" in finding.remedy

    def test_a_file_that_is_not_a_certificate(self, tmp_path: Path) -> None:
        (tmp_path / "x.pem").write_text("no certificate")
        finding = examine_certificate(tmp_path / "x.pem", tmp_path / "absent.key")
        assert finding.verdict is FindingStatus.FAILURE


def test_the_local_engine_is_complete() -> None:
    findings = by_name(examine_engine("local", 4, None, {}))
    assert {finding.verdict for finding in findings.values()} == {FindingStatus.OK}
    assert findings["model weights"].found.startswith("SmolLM2")


@pytest.mark.parametrize("content", [b"no model", None], ids=["another file", "no file"])
def test_invalid_weights(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    finding = by_name(examine_engine("local", 4, path, {}))["model weights"]
    assert finding.verdict is FindingStatus.FAILURE
    assert str(path) in finding.found


@pytest.mark.parametrize(
    ("engine", "options", "words"),
    [
        ("grand", {}, "no engine 'grand'"),
        ("local", {"reply_words": 1}, "reply_words"),
        ("minicpmo", {}, "not set"),
    ],
)
def test_an_unknown_engine(engine: str, options: dict[str, object], words: str) -> None:
    [finding] = examine_engine(engine, 4, None, options)
    assert finding.verdict is FindingStatus.FAILURE
    assert words in finding.found


@pytest.mark.parametrize(("environment", "longest"), [({"FORCE_COLOR": "1"}, 80), ({}, 1000)])
def test_findings_fit_into_a_terminal_and_are_whole_lines_elsewhere(
    environment: dict[str, str],
    longest: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ({"COLUMNS": "80", "TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    show_findings([warning("data", "words " * 30, "chmod " + "folder " * 30)])
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= longest
    assert len([line for line in lines if "folder" in line]) == (1 if longest > 80 else 4)


@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(1024, FindingStatus.WARNING), (20_000, FindingStatus.OK), (-1, FindingStatus.OK)],
)
def test_few_open_files_are_a_warning(
    hard: int, verdict: FindingStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    assert examine_open_files().verdict is verdict
