"""A recorded conversation, played again to stacks that answer alike or not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from antiphon.client.chat import ask
from antiphon.client.duplex import connect_duplex
from antiphon.client.half_duplex import connect_half_duplex
from antiphon.shared_schemas.chat_messages import ChatGeneration
from antiphon.shared_schemas.config import (
    DuplexConfig,
    GenerationConfig,
    HalfDuplexConfig,
    VadConfig,
)
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.half_duplex_messages import TurnDone
from support.speech import say, seconds
from support.spoken import ITALY
from support.stack import Stack, until

pytestmark = [pytest.mark.speech, pytest.mark.timeout(180)]

CALM = DuplexConfig(temperature=0.0, force_listen_count=1)
ANSWER_S = 4.0


async def antiphon(stack: Stack, *args: str) -> subprocess.CompletedProcess[str]:
    """The command, looking for recordings where the stack has put them."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "antiphon", *args, "--data-dir", str(stack.data_dir)],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"NO_COLOR": "1"},
    )


async def talk(stack: Stack) -> str:
    """Ask a question in real time and hear the answer; returns the id of the finished recording."""
    loop = asyncio.get_running_loop()
    async with connect_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", CALM)
        question, results = seconds(0.3, say(ITALY), ANSWER_S), aiter(session.results())
        spoken = ""
        for second in question:
            began = loop.time()
            await session.send_audio(second)
            spoken += (await anext(results)).text
            await asyncio.sleep(began + 1.0 - loop.time())
        assert "Rome" in spoken
        await session.stop()
    return await finished(stack, prepared.recording_session_id)


async def sit_silent(stack: Stack, units: int) -> str:
    """Send silence as fast as it is answered; returns the id of the finished recording."""
    async with connect_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        prepared = await session.prepare(config=CALM)
        results = aiter(session.results())
        for second in seconds(float(units)):
            await session.send_audio(second)
            await anext(results)
        await session.stop()
    return await finished(stack, prepared.recording_session_id)


async def finished(stack: Stack, recording: str | None) -> str:
    """Wait until a recording is whole."""
    assert recording is not None
    meta = stack.data_dir / "sessions" / recording / "meta.json"
    await until(lambda: meta.is_file() and json.loads(meta.read_text())["duration_s"] is not None)
    await until(lambda: json.loads(meta.read_text())["replay"] != "merging")
    return recording


async def replay(stack: Stack, recording: str, *flags: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a replay."""
    args = ("replay", recording, "--url", stack.ws_url, "--json", *flags)
    done = await antiphon(stack, *args)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def test_an_engine_is_held_against_what_it_said_before(stack: Stack) -> None:
    stack.edge()
    stack.recorder()
    worker = stack.worker("local", slots=1)
    recording = await talk(stack)

    # A machine that is busy with other things may think a second longer: that is reported, and tolerated.
    status, report = await replay(
        stack, recording, "--fast", "--decisions", "0.4", "--slower", "1000"
    )
    assert (status, report["differs"], report["reasons"]) == (0, False, []), report
    assert report["text"] == 1.0
    assert "Rome" in "".join(row["after"]["text"] for row in report["rows"] if row["after"])

    worker.stop()
    stack.worker("simulated", slots=1)
    other = await antiphon(stack, "replay", recording, "--url", stack.ws_url, "--fast")
    assert other.returncode == 1, other.stderr
    assert "differs   text: 0% the same" in other.stdout
    assert "Rome" in other.stdout

    steady = await sit_silent(stack, 6)
    status, report = await replay(stack, steady, "--slower", "1000")  # at the pace it came
    assert (status, report["decisions"], report["text"]) == (0, 1.0, 1.0), report
    assert {row["after"]["speaks"] for row in report["rows"]} == {True, False}


async def test_turns_and_chats_are_held_again_too(stack: Stack) -> None:
    stack.edge()
    stack.recorder()
    stack.worker("local", slots=1)
    config = HalfDuplexConfig(
        vad=VadConfig(threshold=0.6), generation=GenerationConfig(temperature=0.0)
    )
    async with connect_half_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", config)
        await session.send_audio(np.concatenate(seconds(0.7, say(ITALY), 1.6)))
        async for event in session.events():
            if isinstance(event, TurnDone):
                break
        await session.stop()
    turns = await finished(stack, prepared.recording_session_id)
    question = [ConversationMessage(Role.USER, (TextPart("What is the capital of Italy?"),))]
    async with ask(stack.ws_url, question, generation=ChatGeneration(temperature=0.0)) as answer:
        chat = await finished(stack, (await answer.whole()).recording_session_id)

    for recording in (turns, chat):
        status, report = await replay(stack, recording, "--fast", "--slower", "1000")
        assert (status, report["reasons"]) == (0, []), report
        [row] = report["rows"]
        assert "Rome" in row["before"]["text"]
        assert row["after"]["text"] == row["before"]["text"]
    assert len(list((stack.data_dir / "sessions").iterdir())) == 2  # replays are not recorded
