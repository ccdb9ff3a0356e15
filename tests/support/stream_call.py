"""Calls of `antiphon evaluate` with an engine in this process, in the time of the audio.

Nothing waits: the loop's clock jumps to the next event, and stands still while the engine computes. So a busy
machine takes longer and finds the same.
"""

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from antiphon.cli.conversation.conversation import in_background
from antiphon.cli.evaluate.call import ConnectedCall
from antiphon.cli.evaluate.tracks import Kind
from antiphon.client.turns import TurnCounter
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import DuplexConfig

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everything waits for something that never happens"
        self.now += max(0.0, timeout)
        return super().select(0)


def run_in_stream_time(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, with a clock of its own."""
    selector = _JumpingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class StreamCall(ConnectedCall):
    """The result of a chunk comes when the chunk ends."""

    def __init__(self, view: DuplexView, chunk_s: float) -> None:
        super().__init__(chunk_s)
        self._view = view
        self._turns = TurnCounter()

    async def send(self, chunk: Samples) -> None:
        self._view.prefill(chunk)
        result = self._view.generate()
        self._view.finalize()
        turn = self._turns.take(result)
        cut = bool(getattr(result, "interrupted", None))
        played_s = self.hear(result.audio, result.text, turn, cut=cut, ends=result.end_of_turn)
        if played_s is not None:
            self._view.played(played_s * 1000)

    async def _take_all(self) -> None:
        """`send` has taken the results."""
        await asyncio.Event().wait()


class StreamLine:
    """Opens calls to an engine, as `antiphon.cli.evaluate.run.Line` does to an edge."""

    def __init__(self, new_view: Callable[[], DuplexView], chunk_ms: int) -> None:
        self._new_view = new_view
        self._config = DuplexConfig(temperature=0.0, chunk_ms=chunk_ms)

    def opener(self, kind: Kind) -> Callable[[], AbstractAsyncContextManager[ConnectedCall]]:
        assert kind is not Kind.HALF_DUPLEX
        return self._call

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[ConnectedCall]:
        view = self._new_view()
        view.prepare("You are a helpful assistant.", self._config)
        call = StreamCall(view, self._config.chunk_ms / 1000)
        try:
            async with in_background(call.talk(call.send)):
                yield call
        finally:
            view.cleanup()
