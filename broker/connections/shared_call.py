"""A call that several callers need at the same time is made once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from antiphon.broker.errors import BrokerUnavailable

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Callers that come while the call is in progress wait for its result, or get its error."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        self._task: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Raises BrokerUnavailable after `aclose`, and what the function raises."""
        task = self._task
        if task is None or task.done():
            task = self._task = asyncio.create_task(self._function(), name="redis-lookup")
            task.add_done_callback(_retrieve_error)
        await asyncio.wait((task,))  # the cancellation of one caller is not that of the others
        if task.cancelled():
            raise BrokerUnavailable("the connection was closed")
        return task.result()

    async def aclose(self) -> None:
        """Stop the call in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """asyncio reports an error that nothing has retrieved: every caller may be cancelled."""
    if not task.cancelled():
        task.exception()
