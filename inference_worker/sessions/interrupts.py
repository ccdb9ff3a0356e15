"""Watches client input during an answer so that `stop` and `break` act at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from antiphon.inference_worker.engines.processor import SessionView
from antiphon.inference_worker.sessions.mailbox import SessionMailbox
from antiphon.shared_schemas.entries import BreakIn, StopIn, StreamPosition


class InterruptWatcher:
    """Forwards `stop` and `break` to the engine and discards all other input.

    `last` is the position of the last input read.
    """

    def __init__(
        self, last: StreamPosition, on_break: Callable[[], None], view: SessionView
    ) -> None:
        self.last = last
        self.stopped = False
        self.broken = False
        self._on_break = on_break
        self._view = view

    @property
    def interrupted(self) -> bool:
        """True if the client no longer wants the answer."""
        return self.stopped or self.broken

    @asynccontextmanager
    async def watch(self, mailbox: SessionMailbox) -> AsyncIterator[None]:
        """Read the mailbox until the context exits.

        An error of the mailbox is not raised here: its next call raises it again.
        """
        watching = asyncio.create_task(self._read(mailbox), name="interrupts")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _read(self, mailbox: SessionMailbox) -> None:
        while not self.stopped:
            item = await mailbox.next(None)
            assert item is not None
            self.last = item.position
            self.stopped = isinstance(item.entry, StopIn)
            self.broken = self.broken or isinstance(item.entry, BreakIn)
            self.resend()

    def resend(self) -> None:
        """Repeat the request: an engine ignores one that arrives before generation begins."""
        if self.stopped:
            self._view.stop()
        elif self.broken:
            self._on_break()
