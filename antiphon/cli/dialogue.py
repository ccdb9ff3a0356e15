"""What `talk` and the demo do between connecting and hanging up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.cli.conversation import Heard, Question, ask, hush, speak, units
from antiphon.cli.latency import SendLog, UnitLatency
from antiphon.cli.microphone import Headset
from antiphon.cli.transcript import Transcript
from antiphon.cli.wav import load_speech, save_reply
from antiphon.client.duplex import DuplexSession, connect_duplex
from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.config import DuplexConfig


@asynccontextmanager
async def prepared_session(
    url: str,
    prompt: str,
    transcript: Transcript,
    config: DuplexConfig | None = None,
    *,
    api_key: str | None = None,
) -> AsyncIterator[DuplexSession]:
    """A session that has waited its turn and knows its prompt."""
    async with connect_duplex(url, timing=True, api_key=api_key) as session:
        transcript.connected(url, session.session_id)
        await session.wait_for_turn(transcript.place)
        transcript.prepared(await session.prepare(prompt, config))
        yield session


async def ask_file(
    url: str,
    path: Path,
    prompt: str,
    patience_s: float,
    out: Path,
    transcript: Transcript,
    config: DuplexConfig | None = None,
    *,
    api_key: str | None = None,
) -> Heard:
    """Speak a recording, print the conversation, save the reply. Raises ClientError, UnusableAudio."""
    question = Question(load_speech(path))
    async with prepared_session(url, prompt, transcript, config, api_key=api_key) as session:
        transcript.question(path.name, question)
        heard = await ask(session, question, transcript, patience_s)
        heard.recording = session.prepared.recording_session_id if session.prepared else None
    finish(heard, out, transcript)
    return heard


async def converse_live(
    url: str, prompt: str, out: Path, transcript: Transcript, api_key: str | None = None
) -> None:
    """Talk through the headset until interrupted. Raises ClientError, NoMicrophone."""
    heard, headset = Heard(), Headset()
    async with prepared_session(url, prompt, transcript, api_key=api_key) as session:
        try:
            with headset:
                transcript.microphone()
                await _talk_and_listen(session, headset, heard, transcript)
        finally:
            finish(heard, out, transcript)


async def _talk_and_listen(
    session: DuplexSession, headset: Headset, heard: Heard, transcript: Transcript
) -> None:
    log, answer_ms = SendLog(), 0.0
    speaking = asyncio.create_task(speak(session, headset.chunks(), log))
    try:
        async for unit in units(session, transcript):
            latency = UnitLatency.of(unit, log)
            heard.add(unit, latency)
            transcript.unit(unit, latency)
            if unit.is_listen and answer_ms:  # interrupted; a finished turn may play to its end
                await session.playback_ack(max(0.0, answer_ms - headset.hush()))
            headset.play(unit.audio)
            goes_on = not unit.is_listen and not unit.end_of_turn
            answer_ms = answer_ms + len(unit.audio) * 1000 / OUTPUT_RATE if goes_on else 0.0
    finally:
        await hush(speaking)


def finish(heard: Heard, out: Path, transcript: Transcript) -> None:
    """Save what was said and print the figures."""
    if heard.audio:
        save_reply(out, heard.speech)
        transcript.reply(heard, out)
    transcript.summary(heard)
