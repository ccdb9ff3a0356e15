"""Replays recorded conversations against stacks that answer alike or differently."""

import asyncio
import json
import os
import subprocess
from typing import Any

import numpy as np
import pytest

from antiphon.client.chat import ask
from antiphon.client.duplex import connect_duplex
from antiphon.client.half_duplex import connect_half_duplex
from antiphon.shared_schemas.config import (
    DuplexConfig,
    GenerationConfig,
    HalfDuplexConfig,
    VadConfig,
)
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.messages.chat import ChatGeneration
from antiphon.shared_schemas.messages.half_duplex import TurnDone
from support.fork_server import run_antiphon
from support.speech import say, seconds
from support.stack import Stack, until
from support.synthetic_speech import ITALY

pytestmark = [pytest.mark.extended, pytest.mark.speech]

CALM = DuplexConfig(temperature=0.0, force_listen_count=1)
LONGEST_S = 60.0
REST_S = 8.0
"""Silence after the answer, in seconds of the call. A replay on a busy machine answers within it."""


async def antiphon(stack: Stack, *args: str) -> subprocess.CompletedProcess[str]:
    """The command, with the stack's folder of recordings."""
    return await asyncio.to_thread(
        run_antiphon,
        *(*args, "--data-dir", str(stack.data_dir)),
        folder=stack.folder,
        environment=os.environ | {"NO_COLOR": "1"},
    )


async def talk(stack: Stack) -> str:
    """Asks a question and receives the answer; returns the id of the finished recording."""
    async with connect_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", CALM)
        question = [*seconds(0.3, say(ITALY)), *seconds(LONGEST_S)]
        results = aiter(session.results())
        spoken = ""
        for second in question:
            await session.send_audio(second)
            unit = await anext(results)
            spoken += unit.text
            if unit.end_of_turn:
                break
        assert "Rome" in spoken
        for second in seconds(REST_S):
            await session.send_audio(second)
            await anext(results)
        await session.stop()
    return await finished(stack, prepared.recording_session_id)


async def send_silence(stack: Stack, units: int) -> str:
    """Sends silence as fast as it is answered; returns the id of the finished recording."""
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


async def test_an_engine_is_compared_with_its_recorded_answers(
    local_stack: Stack, stack: Stack
) -> None:
    recording = await talk(local_stack)

    # A busy machine may answer a second later. The report says so, and the replay tolerates it.
    status, report = await replay(
        local_stack, recording, "--fast", "--decisions", "0.4", "--slower", "1000"
    )
    assert (status, report["differs"], report["reasons"]) == (0, False, []), report
    assert report["text"] == 1.0
    assert "Rome" in "".join(row["after"]["text"] for row in report["rows"] if row["after"])

    stack.edge()
    stack.recorder()
    stack.worker("simulated", slots=1)
    other = await antiphon(local_stack, "replay", recording, "--url", stack.ws_url, "--fast")
    assert other.returncode == 1, other.stderr
    assert "differs   text: 0% the same" in other.stdout
    assert "Rome" in other.stdout

    steady = await send_silence(stack, 6)
    status, report = await replay(stack, steady, "--slower", "1000")  # at the recorded pace
    assert (status, report["decisions"], report["text"]) == (0, 1.0, 1.0), report
    assert {row["after"]["speaks"] for row in report["rows"]} == {True, False}


async def test_half_duplex_and_chats_are_compared_too(local_stack: Stack) -> None:
    stack = local_stack
    sessions = stack.data_dir / "sessions"
    before = set(sessions.iterdir())
    config = HalfDuplexConfig(
        vad=VadConfig(threshold=0.6),
        generation=GenerationConfig(temperature=0.0),
        greeting="Good morning.",
    )
    async with connect_half_duplex(stack.ws_url) as session:
        await session.wait_for_turn()
        prepared = await session.prepare("You are a helpful assistant.", config)
        turns = (event async for event in session.events() if isinstance(event, TurnDone))
        assert (await anext(turns)).text == "Good morning."
        await session.send_audio(np.concatenate(seconds(0.7, say(ITALY), 1.6)))
        await anext(turns)
        await session.stop()
    spoken = await finished(stack, prepared.recording_session_id)
    question = [ConversationMessage(Role.USER, (TextPart("What is the capital of Italy?"),))]
    async with ask(stack.ws_url, question, generation=ChatGeneration(temperature=0.0)) as answer:
        chat = await finished(stack, (await answer.whole()).recording_session_id)

    for recording in (spoken, chat):
        status, report = await replay(stack, recording, "--fast", "--slower", "1000")
        assert (status, report["reasons"]) == (0, []), report
        [row] = report["rows"]
        assert "Rome" in row["before"]["text"]
        assert row["after"]["text"] == row["before"]["text"]
    added = set(sessions.iterdir()) - before
    assert {folder.name for folder in added} == {spoken, chat}  # replays are not recorded
