"""Log lines as a process writes them on stderr."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.broker.service import logs
from support.python_code import run_code

OURS = "structlog.get_logger('x').info('began', n=1)"
THEIRS = "logging.getLogger('uvicorn.error').warning('port %d', 80)"


SETUP = """import asyncio, logging, structlog, warnings
from antiphon.broker.service.logs import configure_logging
configure_logging('edge')
"""


def lines(code: str, **env: str) -> list[str]:
    """The output of a new process that has configured its logs."""
    shown = run_code(SETUP + code, environment=_env(env), imports=(logs.__name__,))
    assert shown.returncode == 0, shown.stderr
    return shown.stderr.splitlines()


def entries(code: str, **env: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in lines(code, **env)]


def _env(more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return kept | more


def test_log_lines_are_json_without_a_terminal() -> None:
    [entry] = entries(OURS)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {"event": "began", "n": 1, "level": "info", "service": "edge"}


def test_long_values_are_cut_in_the_middle() -> None:
    code = "structlog.get_logger().info('x', text='a' * 10**6 + 'z', many=list(range(10**5)))"
    [entry] = entries(code)
    for name, end in (("text", "z"), ("many", "99999]")):
        assert len(entry[name]) < 9_000
        assert entry[name].endswith(end)
        assert "characters" in entry[name]


def test_a_traceback_is_cut_in_the_middle() -> None:
    code = "\ntry: raise ValueError('v' * 10**6)\nexcept ValueError: structlog.get_logger().exception('x')"
    [entry] = entries(code)
    assert len(entry["exception"]) < 9_000
    assert entry["exception"].startswith("Traceback")


def test_values_that_orjson_refuses_are_logged() -> None:
    [line] = lines("structlog.get_logger().info('x', text='\\ud800', number=10**30)")
    entry = json.loads(line)
    assert entry["number"] == 10**30
    assert entry["text"] == "\ud800"


def test_lines_of_libraries_have_the_same_form() -> None:
    [entry] = entries(THEIRS)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "port 80",
        "level": "warning",
        "service": "edge",
        "logger": "uvicorn.error",
    }


def test_bound_fields_are_on_every_line_of_both() -> None:
    bind = "structlog.contextvars.bind_contextvars(session='adx_1', instance='edge-1')\n"
    for entry in entries(f"{bind}{OURS}\n{THEIRS}"):
        assert (entry["session"], entry["instance"]) == ("adx_1", "edge-1")


def test_an_exception_is_one_line() -> None:
    ours = "try: 1/0\nexcept ZeroDivisionError: structlog.get_logger().exception('failed')\n"
    theirs = "try: 1/0\nexcept ZeroDivisionError: logging.getLogger('asyncio').exception('lost')"
    for entry in entries(ours + theirs):
        assert entry["level"] == "error"
        assert "ZeroDivisionError: division by zero" in entry["exception"]


def test_python_warnings_are_logged_in_the_same_form() -> None:
    [entry] = entries("warnings.warn('old')")
    assert entry["logger"] == "py.warnings"
    assert "old" in entry["event"]


def test_values_that_are_not_json_are_logged_as_text() -> None:
    [entry] = entries("structlog.get_logger().info('x', thing={1, 2}, path=__import__('pathlib'))")
    assert entry["thing"] == "{1, 2}"


def test_debug_lines_of_libraries_are_left_out_by_default() -> None:
    chatter = "logging.getLogger('httpx').info('GET /')"
    assert lines(chatter) == []
    assert lines(chatter, ANTIPHON_LOG_LEVEL="DEBUG") != []


def test_the_level_is_a_setting() -> None:
    assert lines(OURS, ANTIPHON_LOG_LEVEL="WARNING") == []


def test_a_bad_setting_ends_the_process_with_a_message() -> None:
    shown = run_code(SETUP, environment=_env({"ANTIPHON_LOG_FORMAT": "xml"}))
    assert shown.returncode == 78
    assert shown.stderr.startswith("antiphon: ")
    assert "ANTIPHON_LOG_FORMAT" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(("format_", "coloured"), [("auto", True), ("json", False)])
def test_a_terminal_gets_colours(format_: str, coloured: bool) -> None:
    here, there = pty.openpty()
    env = _env({"ANTIPHON_LOG_FORMAT": format_, "TERM": "xterm", "FORCE_COLOR": "1"})
    env.pop("NO_COLOR", None)
    command = [sys.executable, "-c", SETUP + OURS]
    subprocess.run(command, env=env, stderr=there, check=True, timeout=60)
    os.close(there)
    shown = os.read(here, 65536).decode()
    os.close(here)
    assert ("\x1b[" in shown) is coloured
    assert "began" in shown


def test_the_console_format_can_be_forced() -> None:
    [line] = lines(OURS, ANTIPHON_LOG_FORMAT="console")
    assert "began" in line
    assert not line.startswith("{")


RECORDING = "0123456789abcdef0123456789abcdef"
DENIED = "[Errno 13] denied: '/data/01234567/meta.json'"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("resume_token", "abc", "***"),
        ("password", "abc", "***"),
        ("error", "no route to redis://user:geheim@host:1/0", "no route to redis://***@host:1/0"),
        ("path", "/ws?resume_token=abc&seq=3", "/ws?resume_token=***&seq=3"),
        ("url", "http://h/x?api_key=abc", "http://h/x?api_key=***"),
        ("recording", RECORDING, "01234567"),
        ("folder", Path("/data", RECORDING), "/data/01234567"),
        ("error", f"[Errno 13] denied: '/data/{RECORDING}/meta.json'", DENIED),
        ("path", f"/api/shared/share_{RECORDING}", "/api/shared/share_01234567"),
        ("removed", [{"session": RECORDING, "bytes": 7}], [{"session": "01234567", "bytes": 7}]),
        (
            "options",
            {"token": "abc", "at": ("x?token=abc",)},
            {"token": "***", "at": ["x?token=***"]},
        ),
        ("session", RECORDING, RECORDING),
        ("digest", 2 * RECORDING, 2 * RECORDING),
        ("tokens", 12, 12),
        ("key", "antiphon:in:{s}", "antiphon:in:{s}"),
        ("url", "ws://127.0.0.1:80/x@y", "ws://127.0.0.1:80/x@y"),
    ],
)
def test_secrets_are_not_logged(name: str, value: Any, shown: Any) -> None:
    assert logs.hide_secrets(None, "info", {name: value}) == {name: shown}


HOSTILE = r"'w\x1b]52;c;aGk=\x07\x9b2J\u202e\u2028 [1]'"


def test_no_value_of_a_client_controls_a_terminal_in_json() -> None:
    [line] = lines(f"structlog.get_logger().info('x', said={HOSTILE})")
    assert line.isascii()
    assert orjson.loads(line)["said"] == "w\x1b]52;c;aGk=\x07\x9b2J\u202e\u2028 [1]"


def test_no_value_of_a_client_controls_a_terminal_on_the_console() -> None:
    code = f"log = structlog.get_logger()\nlog.info({HOSTILE}, said={HOSTILE})\n"
    code += f"try: raise ValueError({HOSTILE})\nexcept ValueError: log.exception('failed')\n"
    code += f"logging.getLogger('uvicorn').warning({HOSTILE})"
    shown = "\n".join(lines(code, ANTIPHON_LOG_FORMAT="console", NO_COLOR="1"))
    assert shown.count("w\ufffd]52") >= 4
    without_colours = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert not any(control in without_colours for control in "\x1b\x07\x9b\u202e\u2028")
