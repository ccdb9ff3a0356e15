"""Hearing the client out while an answer is made, so that a stop or a break takes effect at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from antiphon.inference_worker.engine_thread import EngineThread
from antiphon.inference_worker.engines.types import Delta
from antiphon.inference_worker.mailbox import Mailbox
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.entries import BreakIn, DeltaOut, StopIn


class Interruptible(Protocol):
    """What can be told from another thread to end what it does."""

    def stop(self) -> None:
        """Abandon work in progress."""


class Attention:
    """What the client did since the answer began; everything but a stop and a break is let go.

    `last_n` numbers the last input heard.
    """

    def __init__(self, last_n: int, on_break: Callable[[], None], view: Interruptible) -> None:
        self.last_n = last_n
        self.stopped = False
        self.broken = False
        self._on_break = on_break
        self._view = view

    async def listen(self, mailbox: Mailbox) -> None:
        """Hear everything until a stop."""
        while not self.stopped:
            item = await mailbox.next(None)
            assert item is not None
            self.last_n = item.n
            self.stopped = isinstance(item.entry, StopIn)
            self.broken = self.broken or isinstance(item.entry, BreakIn)
            self.insist()

    @property
    def ended(self) -> bool:
        """True once the client does not want the answer any more."""
        return self.stopped or self.broken

    def insist(self) -> None:
        """Tell the engine once more: what it was told before it had begun does not count."""
        if self.stopped:
            self._view.stop()
        elif self.broken:
            self._on_break()


@asynccontextmanager
async def attending(mailbox: Mailbox, attention: Attention) -> AsyncIterator[None]:
    """Listen for as long as the context lasts.

    A mailbox that fails meanwhile fails again when it is next asked.
    """
    listening = asyncio.create_task(attention.listen(mailbox), name="attention")
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def deltas(
    engine: EngineThread, answer: Callable[[], Iterator[Delta]], attention: Attention
) -> AsyncGenerator[Delta, None]:
    """The pieces of an answer as the engine makes them, for as long as the client wants them."""
    async with aclosing(engine.stream(answer)) as pieces:
        async for delta in pieces:
            attention.insist()
            if attention.stopped:
                return
            yield delta


def delta_out(delta: Delta) -> DeltaOut:
    """A piece of an answer as it lies in the stream."""
    return DeltaOut(text_delta=delta.text, audio=float_bytes(delta.audio))
