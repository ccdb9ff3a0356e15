"""Holding a conversation: audio goes out in real time while results come in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from antiphon.cli.latency import LatencySummary, SendLog, UnitLatency
from antiphon.cli.wav import speech_end_s
from antiphon.client.duplex import DuplexSession, Unit
from antiphon.client.errors import ClientError, ServerError
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

CHUNK_S = 1.0
_CHUNK = int(INPUT_RATE * CHUNK_S)


class Witness(Protocol):
    """Whoever shows the conversation while it happens."""

    def unit(self, unit: Unit, latency: UnitLatency | None) -> None:
        """One unit's result has come."""

    def error(self, error: ServerError) -> None:
        """The server complained; the conversation goes on."""


@dataclass(slots=True)
class Heard:
    """What came back.

    `first_words_s`: from the end of the question to the first spoken result. `recording`: the id
    under which the server keeps the session.
    """

    answered: bool = False
    text: str = ""
    audio: list[Samples] = field(default_factory=list)
    latencies: list[UnitLatency] = field(default_factory=list)
    first_words_s: float | None = None
    recording: str | None = None

    @property
    def speech(self) -> Samples:
        """Everything that was said, float32 mono 24 kHz."""
        return np.concatenate([SILENCE, *self.audio])

    @property
    def summary(self) -> LatencySummary:
        """Its latencies."""
        return LatencySummary.of(self.latencies)

    def add(self, unit: Unit, latency: UnitLatency | None) -> None:
        """Take one unit down."""
        if latency is not None:
            self.latencies.append(latency)
        if not unit.is_listen:
            self.text += unit.text
            self.audio.append(unit.audio)


class Question:
    """A recording, spoken once in one-second chunks and followed by silence for ever."""

    def __init__(self, samples: Samples) -> None:
        self.duration_s = len(samples) / INPUT_RATE
        self.speech_end_s = speech_end_s(samples)
        self._samples = samples

    def chunks(self) -> Iterator[Samples]:
        """One second each; the last one of the recording is filled up with silence."""
        for start in range(0, len(self._samples), _CHUNK):
            chunk = self._samples[start : start + _CHUNK]
            yield np.pad(chunk, (0, _CHUNK - len(chunk)))
        while True:
            yield np.zeros(_CHUNK, dtype=np.float32)


async def paced(chunks: Iterator[Samples], start: float) -> AsyncIterator[Samples]:
    """Each chunk when a microphone that opened at `start` (`time.monotonic()`) would have it."""
    for number, chunk in enumerate(chunks, start=1):
        await asyncio.sleep(start + number * CHUNK_S - time.monotonic())
        yield chunk


async def ask(
    session: DuplexSession, question: Question, witness: Witness, patience_s: float
) -> Heard:
    """Speak the question in real time and listen until the reply's turn has ended.

    Gives up, with `answered` False, when nothing is said for `patience_s` after the question.
    Raises SessionOver when the session ends before that.
    """
    heard, log, start = Heard(), SendLog(), time.monotonic()
    speaking = asyncio.create_task(speak(session, paced(question.chunks(), start), log))
    try:
        async with asyncio.timeout(question.duration_s + patience_s) as limit:
            async for unit in units(session, witness):
                latency = UnitLatency.of(unit, log)
                heard.add(unit, latency)
                witness.unit(unit, latency)
                if unit.is_listen or unit.message.current_time / 1000 <= question.speech_end_s:
                    continue
                limit.reschedule(asyncio.get_running_loop().time() + patience_s)
                if heard.first_words_s is None:
                    heard.first_words_s = unit.received_at - start - question.speech_end_s
                if unit.end_of_turn:
                    heard.answered = True
                    break
    except TimeoutError:
        heard.answered = False
    finally:
        await hush(speaking)
    return heard


async def hush(speaking: asyncio.Task[None]) -> None:
    """Stop a `speak` task; that the session ended under it is told by the results already."""
    speaking.cancel()
    with suppress(asyncio.CancelledError, ClientError):
        await speaking


async def speak(session: DuplexSession, chunks: AsyncIterator[Samples], log: SendLog) -> None:
    """Send chunks as they come; raises SessionOver when the session has ended."""
    async for chunk in chunks:
        log.add(len(chunk) * 1000 / INPUT_RATE, await session.send_audio(chunk))


async def units(session: DuplexSession, witness: Witness) -> AsyncIterator[Unit]:
    """Results until the session has ended; errors that do not end it go to the witness."""
    while True:
        try:
            async for unit in session.results():
                yield unit
        except ServerError as error:
            witness.error(error)
        else:
            return
