"""`antiphon models`, with a hub on this machine."""

import hashlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from antiphon.cli.commands import models as command
from antiphon.cli.commands.models import models
from antiphon.inference_worker.engines.local import stored_models
from antiphon.inference_worker.engines.local.stored_models import (
    PUBLISHED_MODELS,
    SCORES,
    ModelScore,
    PublishedModel,
)
from support.file_hub import Answer, FileHub, file_hub
from support.fork_server import fork_server, run_antiphon

CONTENT = b"GGUF" + random.Random(1).randbytes(3_000_000)
SMALL = PublishedModel(
    "small", "org/repo", "abc", "small.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()
)
LARGE = PUBLISHED_MODELS[0]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHub]:
    with file_hub(CONTENT) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        yield server


@pytest.fixture
def small(hub: FileHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a model that is published too."""
    for module in (command, stored_models):
        monkeypatch.setattr(module, "PUBLISHED_MODELS", (*PUBLISHED_MODELS, SMALL))
    monkeypatch.setitem(SCORES, SMALL.name, ModelScore("MIT", everyday=50, memory_mib=600))
    return tmp_path / "antiphon" / "models" / SMALL.file


def run(*words: str) -> tuple[int, str]:
    """In this process; the status and the output."""
    result = CliRunner().invoke(models, words)
    return result.exit_code, result.output


def listed(name: str) -> dict[str, Any]:
    rows = orjson.loads(run("list", "--json")[1])
    return next(row for row in rows if row["model"] == name)


def test_a_model_is_downloaded_used_and_removed(hub: FileHub, small: Path) -> None:
    assert listed("small")["state"] == "absent"
    status, shown = run("get", "small")
    assert (status, small.read_bytes()) == (0, CONTENT)
    assert "0 of 3 MB" in shown
    assert f"{small}: 3 MB, and the SHA-256 is right" in shown
    assert "up --model-path small" in shown
    assert stored_models.resolve_model(Path("small")) == small
    assert listed("small") == {
        "model": "small",
        "state": "here",
        "bytes": len(CONTENT),
        "licence": "MIT",
        "download_bytes": len(CONTENT),
        "memory_mib": 600,
        "everyday": 50,
    }
    status, shown = run("list")
    assert "small" in shown
    assert "3 MB (here)" in shown
    assert "50 of 100" in shown
    assert f"Folder of the downloaded models: {small.parent}" in shown
    assert run("remove", "small") == (0, "deleted small: 3 MB\n")
    assert not any(small.parent.iterdir())
    assert len(hub.asked) == 1


def test_a_terminal_shows_a_bar(hub: FileHub, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    hub.script = [Answer(503, {"Retry-After": "0"}, b"")]
    status, shown = run("get", "small")
    assert (status, small.read_bytes()) == (0, CONTENT)
    assert "3.0/3.0 MB" in shown
    assert "answers 503; the next try is in 0 s" in shown
    assert "0 of 3 MB" not in shown


def test_a_file_that_was_copied_there_is_checked(hub: FileHub, small: Path) -> None:
    small.parent.mkdir(parents=True)
    small.write_bytes(CONTENT)
    assert run("get", "small")[0] == 0
    small.write_bytes(CONTENT[:-1] + b"\0")
    status, shown = run("get", "small")
    assert status == 1
    assert f"{small} is not the published file" in shown
    assert "models remove small" in shown
    assert hub.asked == []


def test_a_copied_file_replaces_what_was_downloaded(hub: FileHub, small: Path) -> None:
    part = small.with_name(f"{small.name}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    assert listed("small")["state"] == "unfinished"
    small.write_bytes(CONTENT)
    assert (listed("small")["state"], listed("small")["bytes"]) == ("here", len(CONTENT))
    assert run("get", "small")[0] == 0
    assert (part.exists(), small.read_bytes()) == (False, CONTENT)
    assert hub.asked == []


def test_a_copied_file_that_is_wrong_leaves_what_was_downloaded(hub: FileHub, small: Path) -> None:
    part = small.with_name(f"{small.name}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    small.write_bytes(b"GGUF")
    assert listed("small")["state"] == "unfinished"
    assert run("get", "small")[0] == 1
    assert part.exists()
    assert run("remove", "small") == (0, "deleted small: 0 MB\n")
    assert not any(small.parent.iterdir())


def test_words_of_a_hub_do_not_reach_the_terminal(hub: FileHub, small: Path) -> None:
    evil = "\x1b]0;owned\x07"
    hub.script = [
        Answer(302, {"Location": f"http://127.0.0.1:1/{evil}"}, b""),
        Answer(403, {"X-Error-Message": evil}, evil.encode()),
        Answer(503, {"Retry-After": "9999"}, evil.encode()),
    ]
    for words in ("nothing listens there", "answers 403", "asks to wait 9999 s"):
        status, shown = run("get", "small")
        assert status == 1
        assert words in shown
        assert f"to {small} by other means; the same command checks it then" in shown
        assert "HTTPS_PROXY" in shown
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("get", "smoll"), 2, "there is no model smoll; the names are: smollm2-135m, qwen2.5-"),
        (("get", "smollm2-135m"), 0, "smollm2-135m comes with the engine: /"),
        (("get", "small", "--hub", "ftp://x:secret@hub/"), 2, "--hub ftp://hub/ (HF_ENDPOINT):"),
        (("get", "small", "--hub", "hub.lan"), 2, "use an address like https://huggingface.co"),
        (("remove", "smollm2-135m"), 1, "pip uninstalls it"),
        (("remove", "qwen2.5-1.5b"), 1, "qwen2.5-1.5b is not in /"),
        (("remove", "qwen2.5-1.5b"), 1, "; there is: small"),
    ],
)
def test_mistakes(small: Path, words: tuple[str, ...], status: int, said: str) -> None:
    small.parent.mkdir(parents=True)
    small.write_bytes(CONTENT)
    assert run(*words)[0] == status
    assert said in run(*words)[1]


def test_an_interrupted_download_is_continued(hub: FileHub, tmp_path: Path) -> None:
    """While it runs, no other command changes the file."""

    def antiphon(*words: str) -> subprocess.CompletedProcess[str]:
        return run_antiphon("models", *words, folder=tmp_path, environment=dict(os.environ))

    hub.script = [Answer(headers={"Content-Length": str(LARGE.size)}, body=CONTENT, hold=True)]
    first = fork_server().start(
        *("antiphon.cli.main", "models", "get", LARGE.name),
        folder=tmp_path,
        environment=dict(os.environ),
        output=tmp_path / "output",
        imports=("antiphon.cli.commands.models",),
    )
    part = tmp_path / "antiphon" / "models" / f"{LARGE.file}.part"
    try:
        while not part.exists() or part.stat().st_size < len(CONTENT):
            assert first.poll() is None
            time.sleep(0.01)
        second, removed = antiphon("get", LARGE.name), antiphon("remove", LARGE.name)
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=60) == 130
    finally:
        first.kill()
    for other in (second, removed):
        assert other.returncode == 1
        assert f"another process downloads {LARGE.file}" in other.stderr
    assert f"models get {LARGE.name}` continues" in (tmp_path / "output").read_text()
    assert listed(LARGE.name)["state"] == "unfinished"

    hub.script = [Answer(404, {}, b"")]
    assert antiphon("get", LARGE.name).returncode == 1
    assert hub.ranges == [None, f"bytes={len(CONTENT)}-"]
    assert antiphon("remove", LARGE.name).stdout == f"deleted {LARGE.name}: 3 MB\n"
    assert listed(LARGE.name)["state"] == "absent"
