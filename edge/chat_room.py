"""How much the chat requests at one edge may come to: each may lie in memory until it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon.edge.errors import NoRoom

_MIB = 1024 * 1024
SMALL = _MIB
"""Requests up to so many bytes are always let in: words need no room."""


class ChatRoom:
    """Bytes of all requests, from their arrival to their end. One that is alone always has room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes."""
        return self._held

    @contextmanager
    def guest(self) -> Iterator[Guest]:
        """One request, which comes whole or piece by piece; it gives its place back in the end."""
        guest = Guest(self)
        try:
            yield guest
        finally:
            self._held -= guest.size

    def add(self, guest: Guest, size: int) -> None:
        """Raises NoRoom."""
        alone = self._held == guest.size
        small = guest.size + size <= SMALL
        if not (alone or small) and self._held + size > self._limit:
            text = (
                f"this server holds {self._limit // _MIB} MiB of chat requests already; try again"
            )
            raise NoRoom(text)
        guest.size += size
        self._held += size


class Guest:
    """One request's part of the room, in bytes."""

    def __init__(self, room: ChatRoom) -> None:
        self.size = 0
        self._room = room

    def bring(self, size: int) -> None:
        """So many bytes more. Raises NoRoom."""
        self._room.add(self, size)
