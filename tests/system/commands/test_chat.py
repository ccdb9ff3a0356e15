"""`antiphon chat`: a question in writing, and a conversation on a terminal."""

import asyncio
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from antiphon.cli.stack.stack_file import StackFile, publish_stack
from support.fork_server import run_antiphon
from support.stack import Stack, until


@pytest.fixture
def answering(stack: Stack) -> Stack:
    stack.edge()
    stack.recorder(recorder_settle_s=0.1)
    stack.worker(engine_options='{"speak_ms": 5}')
    return stack


async def histories(stack: Stack, count: int) -> list[list[tuple[str, str]]]:
    """Role and text of the messages of each recorded chat, the shortest first."""

    def recorded() -> list[Path]:
        metas = (stack.data_dir / "sessions").glob("*/meta.json")
        return [
            meta.parent for meta in metas if orjson.loads(meta.read_bytes())["state"] == "complete"
        ]

    await until(lambda: len(recorded()) == count, within_s=60)
    found = []
    for folder in recorded():
        [turn] = orjson.loads((folder / "recording.json").read_bytes())["turns"]
        found.append(
            [
                (one["role"], "".join(part["text"] for part in one["parts"]))
                for one in turn["input"]["messages"]
            ]
        )
    return sorted(found, key=len)


async def test_one_question(answering: Stack, tmp_path: Path) -> None:
    folder = answering.data_dir
    with publish_stack(folder) as publish:
        publish(StackFile(pid=os.getpid(), redis_url="redis://r", edge_url=answering.ws_url))
        environment = {"NO_COLOR": "1", "ANTIPHON_DATA_DIR": str(folder)}
        asked = run_antiphon("chat", "Who are you?", folder=tmp_path, environment=environment)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert len(asked.stdout.strip()) > 5
    assert asked.stdout.endswith("\n")
    piped = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "antiphon", "chat", "--url", answering.ws_url, "--prompt", "Be Bo."],
        input=b"And \xff I?",
        capture_output=True,
        check=False,
    )
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert piped.stdout.strip()
    first, second = sorted(await histories(answering, 2))
    assert first == [("system", "Be Bo."), ("user", "And \ufffd I?")]
    assert second[1:] == [("user", "Who are you?")]


async def test_a_conversation_on_a_terminal_has_its_history(
    answering: Stack, tmp_path: Path
) -> None:
    here, there = pty.openpty()
    command = [sys.executable, "-m", "antiphon", "chat", "--url", answering.ws_url]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=there, stdout=there, stderr=there, cwd=tmp_path
    )
    os.close(there)
    os.set_blocking(here, False)
    shown = bytearray()

    def prompts(wanted: int) -> bool:
        with suppress(BlockingIOError, OSError):
            shown.extend(os.read(here, 65536))
        return shown.count("› ".encode()) >= wanted

    for number, typed in enumerate((b"Who are you?\n", b"\n", b"And I?\n", b"\x04"), start=1):
        await until(lambda wanted=number: prompts(wanted), within_s=60)  # type: ignore[misc]
        os.write(here, typed)
    await until(lambda: prompts(9) or process.returncode is not None, within_s=60)
    os.close(here)
    assert await process.wait() == 0, shown
    assert b"Traceback" not in shown
    first, second = await histories(answering, 2)
    assert [text for _, text in first[1:]] == ["Who are you?"]
    assert [role for role, _ in second] == ["system", "user", "assistant", "user"]
    assert second[2][1].strip().encode() in shown.replace(b"\r\n", b"\n")
    assert second[3][1] == "And I?"
