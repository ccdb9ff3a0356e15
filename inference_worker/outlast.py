"""Seeing what was begun through to its end, however often the one who waits is told to leave."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def outlast(work: asyncio.Future[T]) -> T:
    """What the work comes to, or raises. A caller that is cancelled meanwhile is so only afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    if not work.cancelled():
        work.exception()  # fetched, so that it is not reported as lost
    raise cancelled
