"""The room that chat requests share."""

from __future__ import annotations

import pytest

from antiphon.edge.chat_room import ChatRoom
from antiphon.edge.errors import NoRoom

MIB = 1024 * 1024


def test_what_is_over_the_limit_is_refused_and_costs_nothing() -> None:
    room = ChatRoom(10 * MIB)
    with room.guest() as one, room.guest() as other:
        one.bring(6 * MIB)
        other.bring(4 * MIB)
        with pytest.raises(NoRoom, match="holds 10 MiB"):
            other.bring(1)
        with room.guest() as small:
            small.bring(MIB)
            with pytest.raises(NoRoom):
                small.bring(1)
        assert room.held == 10 * MIB
    assert room.held == 0


def test_pieces_count_like_a_whole() -> None:
    room = ChatRoom(2 * MIB)
    with room.guest() as one, room.guest() as other:
        one.bring(1)
        for _ in range(31):
            other.bring(64 * 1024)
        with pytest.raises(NoRoom):
            other.bring(64 * 1024)


def test_one_alone_always_has_room() -> None:
    room = ChatRoom(1024)
    with room.guest() as one:
        one.bring(MIB)
        one.bring(MIB)
        with room.guest() as other, pytest.raises(NoRoom):
            other.bring(MIB + 1)
    assert room.held == 0
