"""Mistakes of new users: each gets one line that names the cause and the remedy, and a status."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.cli.stack.stack_file import StackFile, publish_stack
from support.fork_server import fork_server, run_antiphon
from support.ports import free_port
from support.processes import ANY_PORTS, without_settings
from support.stack import Stack, new_stack

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
TINY_CONFIG = ROOT / "tests/support/minicpmo/golden/ckpt/config.json"
NOTHING = "127.0.0.1:1"
"""An address where nothing listens."""

USAGE, PERMANENT = 2, 78
SERVICES = {"edge", "worker", "recorder", "cleanup"}
"""Their last line is a log entry in JSON."""

KEY = "k0123456789abcdef"
UNKNOWN = "0" * 32
SPEAKS_SOON = '{"cycle_units": 6, "speak_ratio": 0.8}'
"""After one second, for five seconds."""


@dataclass(frozen=True)
class Mistake:
    """A command, its exit status, and what it must say. Braces are filled in from `Place`."""

    command: str
    status: int
    says: str
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str | bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.command.lower())[:50]


def settings(
    says: str,
    *,
    env: dict[str, str] | None = None,
    toml: str | bytes = "",
    files: dict[str, str | bytes] | None = None,
) -> Mistake:
    """A mistake in the settings, which stops `up` and a service alone; each is tried with one of them."""
    files = {"antiphon.toml": toml} if toml else files or {}
    return Mistake(next(_UP_OR_EDGE), PERMANENT, says, env or {}, files)


_UP_OR_EDGE = itertools.cycle(("up", "edge"))
_UP_OR_WORKER = itertools.cycle(("up", "worker"))


def worker(flags: str, says: str, *, env: dict[str, str] | None = None) -> Mistake:
    """A mistake about the engine, which stops `up` and the worker alone; as with the settings."""
    index = {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    files: dict[str, str | bytes] = {
        "text.md": "no model",
        "weights.gguf": "GGUF",
        "half/config.json": TINY_CONFIG.read_bytes(),
        "half/model.safetensors.index.json": json.dumps(index),
        "half/1.safetensors": "",
    }
    command = f"{next(_UP_OR_WORKER)} {flags} --redis-url {{redis}}"
    return Mistake(command, PERMANENT, says, env or {}, files)


MISTAKES = [
    Mistake(f"talk --url ws://{NOTHING}", 1, f"{NOTHING}: nothing listens there; is `antiphon up`"),
    Mistake("talk --url ws://[::1", 1, "is no address of an edge; one looks like ws://"),
    Mistake("talk --url 127.0.0.1:99999", 1, "is no address of an edge; one looks like ws://"),
    Mistake(
        "talk --url {edge}/ws/duplex/x", 1, "has the path of a session; give the edge's address"
    ),
    Mistake("talk --url {edge}/x", 1, "check that an edge is at this address"),
    Mistake("talk --url wss://127.0.0.1:{port}", 1, "does not use TLS there; use ws:// instead"),
    Mistake("talk --url ws://{redis_address}", 1, "what listens there is not an edge"),
    Mistake("talk --url ws://host.invalid", 1, "the host name host.invalid is unknown"),
    Mistake("talk absent.wav", 1, "there is no file absent.wav"),
    Mistake("talk .", 1, "cannot read .: it is a folder, a sound file is needed"),
    Mistake("talk text.wav", 1, "it is not a sound file (WAV", files={"text.wav": "text"}),
    Mistake("talk empty.m4a", 1, "cannot read empty.m4a: it is empty", files={"empty.m4a": ""}),
    Mistake("talk {folder}/silent.wav", 1, "silent.wav: it has no sound"),
    Mistake("talk --url {locked}", 1, "an API key is required; pass `api_key`, `--api-key` or"),
    Mistake(
        f"talk --url {{locked}} --api-key x{KEY}",
        1,
        "(401): the API key is unknown; pass `api_key`",
    ),
    Mistake("talk --url {edge} --out .", 1, "cannot write .: it is a folder"),
    Mistake("talk --url {edge} --out /proc/x.wav", 1, "/proc/x.wav: No such file or directory"),
    Mistake("talk --url {edge} --out no/reply.wav", 1, "there is no folder no"),
    Mistake("talk question.wav --mic", USAGE, "use either a sound file or --mic, not both"),
    Mistake("talk --patience 0", USAGE, "Invalid value for '--patience'"),
    Mistake("up --port {taken}", 1, "(--host, --port) cannot listen: port {taken} is in use"),
    Mistake("edge --port {taken}", 1, "ANTIPHON_PORT) cannot listen: port {taken} is in use"),
    Mistake("up --redis-port {taken}", 1, "port {taken} is in use; choose another port (--redis"),
    Mistake("up --host 192.0.2.1", 1, "192.0.2.1 is not an address of this machine; choose"),
    Mistake("edge --host 192.0.2.1", 1, "192.0.2.1 is not an address of this machine; choose"),
    Mistake("up --port 99999", PERMANENT, "--port: must be at most 65535"),
    Mistake("edge --port 99999", PERMANENT, "--port: must be at most 65535"),
    settings("ANTIPHON_PORT: must be a whole number", env={"ANTIPHON_PORT": "abc"}),
    settings("ANTIPHON_API_KEYS: keys are 16 to 256", env={"ANTIPHON_API_KEYS": "short"}),
    settings("lease_s in antiphon.toml: must be more than 0", toml="lease_s = 0"),
    settings("ANTIPHON_HOST: must not be empty; remove it", env={"ANTIPHON_HOST": ""}),
    settings("ANTIPHON_DATA_DIR: must not be empty", env={"ANTIPHON_DATA_DIR": ""}),
    Mistake(
        *("up --engine simulated", PERMANENT, "ANTIPHON_LOG_LEVEL: must be one of: 'DEBUG'"),
        env={"ANTIPHON_LOG_LEVEL": "verbose"},
    ),
    settings("antiphon.toml is not valid TOML: Invalid value (at line 1", toml="port = = 3"),
    settings("prot in antiphon.toml is not a setting; did you mean port?", toml="prot = 80"),
    settings("antiphon.toml has a table [edge]: settings belong at", toml="[edge]\nport = 1"),
    settings("set one of them too", env={"ANTIPHON_API_KEY": KEY}),
    settings("not a setting; did you mean ANTIPHON_API_KEY", env={"ANTIPHON_API_KEYZ": KEY}),
    settings(
        "'no' is no address or network; write for example 10.0.0.5,10.1.0.0/16",
        env={"ANTIPHON_TRUSTED_PROXIES": "no"},
    ),
    settings(
        "ANTIPHON_ADMIN_TOKEN_FILE: /absent cannot be read",
        env={"ANTIPHON_ADMIN_TOKEN_FILE": "/absent"},
    ),
    worker("--slots 0", "--slots: must be at least 1"),
    worker(
        "",
        "ANTIPHON_ENGINE_OPTIONS: must be JSON, as in",
        env={"ANTIPHON_ENGINE_OPTIONS": "no"},
    ),
    worker(
        "--engine simulated",
        "there is no option x; the options are: slots, load_ms",
        env={"ANTIPHON_ENGINE_OPTIONS": '{"x": 1}'},
    ),
    *(
        Mistake(f"{name} --redis-url nonsense", PERMANENT, "must be a URL of the form redis://host")
        for name in ("up", "edge", "queue")
    ),
    Mistake(f"up --redis-url redis://{NOTHING}", 1, f"nothing listens at {NOTHING}; --redis-url"),
    Mistake("up --data-dir /proc/no", PERMANENT, "the data folder /proc/no cannot be used"),
    Mistake("up --data-dir file", PERMANENT, "(it is a file); choose another", files={"file": ""}),
    Mistake("demo --data-dir /proc/no", PERMANENT, "choose another with --data-dir"),
    Mistake(
        "cleanup --once --data-dir /proc/no --redis-url {redis}",
        1,
        "choose another with --data",
    ),
    worker("--engine magic", "there is no engine 'magic'; choose one of: backend, local"),
    worker("--engine minicpmo", "needs the checkpoint's folder: --model-path DIR"),
    worker("--model-path /absent.gguf", "there is no model file /absent.gguf; correct --model"),
    worker("--engine minicpmo --model-path /absent", "there is no folder /absent; correct --model"),
    worker("--engine minicpmo --model-path .", "it has no config.json; correct --model"),
    worker("--engine minicpmo --model-path half", "lacks 1 of 2 weight files: 2.safetensors;"),
    worker("--model-path text.md", "text.md is not a GGUF file; correct --model-path"),
    Mistake(f"worker --redis-url redis://{NOTHING}", 1, "`antiphon up` starts one"),
    Mistake(
        "worker --engine simulated --redis-url {redis} --health-port {taken}", 1, "health page"
    ),
    worker("--slots 1000", "--slots: must be at most 256"),
    Mistake(f"queue --redis-url redis://{NOTHING}", 1, "Is `antiphon up` running in this folder?"),
    Mistake("queue --redis-url {redis} cancel no", 1, "antiphon queue --redis-url {redis}`"),
    Mistake("worker drain no --redis-url {redis}", 1, "no worker no; alive are: worker-"),
    Mistake("events --redis-url {redis} --session no", 0, "no event of session no"),
    Mistake("recordings list --data-dir=~/no", 1, "there are no recordings in /"),
    Mistake("recordings list --data-dir=~no/x", USAGE, "home folder of ~no/x is unknown"),
    Mistake("recordings show no", 1, "no recording of session no in data/sessions; --data-dir"),
    Mistake("replay no", USAGE, "no recording of session no in data/sessions; --data-dir"),
    *(
        Mistake(f"{command} {UNKNOWN}", status, f"no recording {UNKNOWN} in data/sessions; --")
        for command, status in (
            ("replay", USAGE),
            ("recordings show", 1),
            ("recordings export", 1),
        )
    ),
    Mistake(f"bench --url ws://{NOTHING}", 1, "Nothing was measured: audio: cannot connect to"),
    Mistake("bench --url {edge} --out /proc/no", 1, "/proc/no: No such file or directory"),
    Mistake("bench --engine magic", PERMANENT, "measured: there is no engine 'magic'; choose"),
    Mistake("bench --engine minicpmo", PERMANENT, "measured: engine 'minicpmo' needs the check"),
    Mistake("tlak", USAGE, "Did you mean 'talk'?"),
    Mistake("session", USAGE, "Did you mean 'sessions'?"),
    Mistake("queue list", USAGE, "No such command 'list'"),
    Mistake("make-secrets /absent", 1, "there is no folder /absent"),
    settings("antiphon.toml is not a text in UTF-8; save it", toml='host = "ä"'.encode("latin-1")),
    settings("antiphon.toml is not a text in UTF-8; save it", toml="port = 0".encode("utf-16")),
    settings("prot in antiphon.toml is not a setting", toml="\ufeffprot = 1"),
    settings("antiphon.toml cannot be read (Is a directory)", files={"antiphon.toml/x": ""}),
    settings(
        "ANTIPHON_API_KEYS_FILE: keys is not a text in UTF-8; save it",
        env={"ANTIPHON_API_KEYS_FILE": "keys"},
        files={"keys": f"{KEY}\n".encode("utf-16")},
    ),
    *(
        Mistake(f"{name} --host {host}", 1, f"{host} is not a host; use an address or a name")
        for name in ("up", "edge")
        for host in ("http://127.0.0.1", "127.0.0.1:80", "[::1]")
    ),
    Mistake("edge --host host.invalid", 1, "the host name host.invalid is unknown"),
]


@dataclass(frozen=True)
class Place:
    """A running stack, an edge with keys, and a port in use, for all mistakes together."""

    stack: Stack
    locked: str
    taken: int

    def fill(self, text: str) -> str:
        return (
            text.replace("{{", "{")
            .replace("}}", "}")
            .format(
                edge=self.stack.ws_url,
                port=self.stack.edge_port,
                locked=self.locked,
                redis=self.stack.redis.url,
                redis_address=self.stack.redis.url.removeprefix("redis://").partition("/")[0],
                taken=self.taken,
                folder=self.stack.folder,
            )
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("mistakes")
    soundfile.write(folder / "silent.wav", np.zeros(0, np.float32), 16000)
    with ExitStack() as resources:
        taken = resources.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack = resources.enter_context(new_stack(folder))
        stack.edge()
        stack.worker("simulated", engine_options=SPEAKS_SOON)
        locked = free_port()
        stack.edge(port=locked, api_keys=KEY)
        yield Place(stack, f"ws://127.0.0.1:{locked}", taken.getsockname()[1])


def run(folder: Path, *command: str, prefix: str, **env: str) -> subprocess.CompletedProcess[str]:
    terminal = {"NO_COLOR": "1", "COLUMNS": "100", "ANTIPHON_KEY_PREFIX": prefix}
    return run_antiphon(
        *command, folder=folder, environment=without_settings() | ANY_PORTS | terminal | env
    )


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_answered_with_its_cause_and_remedy(
    mistake: Mistake, place: Place, tmp_path: Path
) -> None:
    for name, content in mistake.files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    command = place.fill(mistake.command).split()
    ended = run(tmp_path, *command, prefix=place.stack.prefix, **mistake.env)
    assert ended.returncode == mistake.status, ended
    shown = ended.stdout + ended.stderr
    assert place.fill(mistake.says) in " ".join(message(command[0], ended).split()), shown
    for noise in ("Traceback", "validation error", "pydantic", "[type=", "Errno"):
        assert noise not in shown


def test_an_interrupted_conversation_saves_its_reply(place: Place, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.touch()
    process = fork_server().start(
        "antiphon.cli.main",
        *("talk", "--url", place.stack.ws_url),
        folder=tmp_path,
        environment=os.environ | {"NO_COLOR": "1"},
        output=output,
    )
    deadline = time.monotonic() + 90
    while "speaking" not in output.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130, output.read_text()
    assert "saved in reply.wav" in output.read_text()
    assert soundfile.info(tmp_path / "reply.wav").duration > 0


def test_a_terminal_without_unicode_shows_the_answer(place: Place, tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in (
        ["talk", "--url", place.stack.ws_url],
        ["queue", "--redis-url", place.stack.redis.url],
    ):
        ended = subprocess.run(
            [Path(sys.executable).with_name("antiphon"), *command],
            cwd=tmp_path,
            env=os.environ | plain | {"ANTIPHON_KEY_PREFIX": place.stack.prefix},
            capture_output=True,
        )
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output_is_named(tmp_path: Path, unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = _help_to(full.fileno(), tmp_path, unbuffered)
    assert ended.returncode == 1
    assert ended.stderr == "antiphon: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_of_the_output_that_has_ended_is_no_error(tmp_path: Path, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = _help_to(writer, tmp_path, unbuffered)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


def _help_to(output: int, folder: Path, unbuffered: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("antiphon"), "recordings", "--help"],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_stack_in_a_folder_is_shown_the_first(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    first = StackFile(pid=os.getpid(), redis_url="", edge_url="ws://127.0.0.1:8123")
    with publish_stack(tmp_path / "data") as publish:
        publish(first)
        ended = run(tmp_path, "up", "--port", "8123", prefix="antiphon")
    assert ended.returncode == 1
    assert "runs in this folder already, at http://127.0.0.1:8123" in ended.stderr
    assert "antiphon talk --url ws://127.0.0.1:8123`, stop it with" in ended.stderr


def test_a_recorder_waits_for_a_folder_that_it_can_use(place: Place, tmp_path: Path) -> None:
    """It names the folder: a disk that fails later must not stop a recorder either."""
    recorder = place.stack.recorder(data_dir="/proc/no")
    deadline = time.monotonic() + 60
    while "recorder_degraded" not in recorder.log and time.monotonic() < deadline:
        time.sleep(0.05)
    assert '"folder":"/proc/no/sessions"' in recorder.log
    assert recorder.stop() == 0


def message(command: str, ended: subprocess.CompletedProcess[str]) -> str:
    """What was said, which is one line, or one log entry, unless a box shows the usage."""
    lines = ended.stderr.strip().splitlines() or ended.stdout.strip().splitlines()
    if ended.returncode == USAGE:
        return ended.stderr
    if command in SERVICES and lines[-1].startswith("{"):
        entry = json.loads(lines[-1])
        assert entry["level"] == "critical"
        return str(entry["error"])
    assert len(ended.stderr.strip().splitlines()) <= 2
    return ended.stdout + ended.stderr
