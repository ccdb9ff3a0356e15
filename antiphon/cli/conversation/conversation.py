"""One conversation: sends audio in real time and receives results."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from antiphon.cli.conversation.latency import SendLog, UnitLatency
from antiphon.client.duplex import DuplexSession, Unit
from antiphon.client.errors import ClientError, ServerError
from antiphon.client.sound import paced, padded_chunks, silence
from antiphon.client.turns import TurnLog, speech_end_s
from antiphon.shared_schemas.audio import INPUT_RATE, Samples


class ConversationListener(Protocol):
    """Receives the results and errors of a conversation as they arrive."""

    def unit(self, unit: Unit, latency: UnitLatency | None) -> None: ...

    def error(self, error: ServerError) -> None:
        """An error that does not end the session."""


@dataclass(slots=True)
class ConversationResult:
    """The replies of a conversation.

    `first_words_s` has the times from the end of a question to the first spoken result, `recording`
    is the id of the server's recording.
    """

    answered: bool = False
    said: TurnLog = field(default_factory=TurnLog)
    latencies: list[UnitLatency] = field(default_factory=list)
    sent: SendLog = field(default_factory=SendLog)
    first_words_s: list[float] = field(default_factory=list)
    recording: str | None = None

    def add(self, unit: Unit, latency: UnitLatency | None) -> None:
        if latency is not None:
            self.latencies.append(latency)
        self.said.add(unit.message, unit.audio)


class SpokenQuestion:
    """A recording in chunks, followed by endless silence."""

    def __init__(self, samples: Samples) -> None:
        self.duration_s = len(samples) / INPUT_RATE
        self.speech_end_s = speech_end_s(samples)
        self.samples = samples

    def chunks(self, chunk_s: float) -> Iterator[Samples]:
        """Equal chunks; silence fills up the last one of the recording."""
        yield from padded_chunks(self.samples, chunk_s)
        yield from silence(chunk_s)

    async def speak_to(self, send: Callable[[Samples], Awaitable[object]], chunk_s: float) -> None:
        """Send the chunks in real time from now on. The silence marks the end of the speech."""
        async for chunk in paced(self.chunks(chunk_s), time.monotonic(), chunk_s):
            await send(chunk)


async def ask(
    session: DuplexSession,
    question: SpokenQuestion,
    listener: ConversationListener,
    patience_s: float,
    result: ConversationResult | None = None,
) -> ConversationResult:
    """Speak the question in real time, after what was sent before, until the reply is complete.

    Adds to `result`, which a caller has after an interruption too. Returns with `answered` False after
    `patience_s` without speech. Raises SessionOver if the session ends before that.
    """
    result = result or ConversationResult()
    sent_s = result.sent.total_ms / 1000
    start, asked_s = time.monotonic() - sent_s, sent_s + question.speech_end_s
    chunks = paced(question.chunks(session.chunk_s), start + sent_s, session.chunk_s)
    waits = True
    with suppress(TimeoutError):
        async with (
            in_background(speak(session, chunks, result.sent)),
            asyncio.timeout(question.duration_s + patience_s) as limit,
        ):
            async for unit in listen(session, result, listener):
                if not unit.is_listen and unit.message.current_time > asked_s * 1000:
                    limit.reschedule(asyncio.get_running_loop().time() + patience_s)
                    if waits:
                        waits = False
                        result.first_words_s.append(unit.received_at - start - asked_s)
                if result.said.answers(asked_s):
                    break
    result.answered = result.said.answers(asked_s, followed_s=0.0)
    return result


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` until the block ends. Drops its ClientError, since reading results raises it too."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, ClientError):
            await task


async def speak(session: DuplexSession, chunks: AsyncIterator[Samples], log: SendLog) -> None:
    """Send chunks as they become ready. Raises SessionOver if the session has ended."""
    async for chunk in chunks:
        log.add(len(chunk) * 1000 / INPUT_RATE, await session.send_audio(chunk))


async def listen(
    session: DuplexSession, result: ConversationResult, listener: ConversationListener
) -> AsyncIterator[Unit]:
    """Results until the session ends, after they were added to `result` and shown."""
    async for unit in units(session, listener.error):
        latency = UnitLatency.of(unit, result.sent)
        result.add(unit, latency)
        listener.unit(unit, latency)
        yield unit


async def units(
    session: DuplexSession, on_error: Callable[[ServerError], None]
) -> AsyncIterator[Unit]:
    """Results until the session ends; calls `on_error` with errors that do not end it."""
    while True:
        try:
            async for unit in session.results():
                yield unit
        except ServerError as error:
            on_error(error)
        else:
            return
