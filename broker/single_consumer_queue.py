"""A queue for one consumer."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleConsumerQueue(Generic[T]):
    """Items for one task, in their order.

    With less CPU time than `asyncio.Queue`, which serves several consumers.
    """

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        """Not taken yet. Only `put_nowait` may add one: it wakes the consumer."""
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def empty(self) -> bool:
        return not self.items

    def put_nowait(self, item: T) -> bool:
        """Returns True if the consumer waits for the item."""
        self.items.append(item)
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return False
        if not waiter.done():  # it may be cancelled
            waiter.set_result(None)
        return True

    async def get(self) -> T:
        """Not for concurrent use."""
        while not self.items:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.items.popleft()
