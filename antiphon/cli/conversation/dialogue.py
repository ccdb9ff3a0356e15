"""Conversations of `antiphon talk` and the demo, from connecting to saving the reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.cli.conversation.conversation import (
    ConversationResult,
    SpokenQuestion,
    ask,
    in_background,
    listen,
    speak,
)
from antiphon.cli.conversation.latency import SendLog
from antiphon.cli.conversation.microphone import Headset
from antiphon.cli.conversation.transcript import Transcript
from antiphon.cli.conversation.wav import load_speech, save_reply
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
    """A session that has left the queue and is prepared."""
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
) -> ConversationResult:
    """Speak a recording, print the conversation, save the reply. Raises ClientError, UnusableAudio."""
    question = SpokenQuestion(load_speech(path))
    async with prepared_session(url, prompt, transcript, config, api_key=api_key) as session:
        transcript.question(path.name, question)
        result = await ask(session, question, transcript, patience_s)
        result.recording = session.prepared.recording_session_id if session.prepared else None
    _finish(result, out, transcript)
    return result


async def talk_live(
    url: str, prompt: str, out: Path, transcript: Transcript, api_key: str | None = None
) -> None:
    """Talk with microphone and speakers until interrupted. Raises ClientError, NoMicrophone."""
    result, headset = ConversationResult(), Headset()
    async with prepared_session(url, prompt, transcript, api_key=api_key) as session:
        try:
            with headset:
                transcript.microphone()
                await _talk_and_listen(session, headset, result, transcript)
        finally:
            _finish(result, out, transcript)


async def _talk_and_listen(
    session: DuplexSession, headset: Headset, result: ConversationResult, transcript: Transcript
) -> None:
    log, answer_ms = SendLog(), 0.0
    async with in_background(speak(session, headset.chunks(), log)):
        async for unit in listen(session, log, result, transcript):
            if unit.is_listen and answer_ms:  # interrupted; a finished turn may play to its end
                await session.playback_ack(max(0.0, answer_ms - headset.drop_unplayed()))
            headset.play(unit.audio)
            continues = not unit.is_listen and not unit.end_of_turn
            answer_ms = answer_ms + len(unit.audio) * 1000 / OUTPUT_RATE if continues else 0.0


def _finish(result: ConversationResult, out: Path, transcript: Transcript) -> None:
    """Save the reply and print the latencies."""
    if result.audio:
        save_reply(out, result.speech)
        transcript.reply(result, out)
    transcript.summary(result)
