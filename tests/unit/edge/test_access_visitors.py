"""How often one address may come."""

from __future__ import annotations

import pytest

from antiphon.edge.errors import TooManyConnections
from antiphon.edge.visitors import Visitors


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_connections_at_once() -> None:
    visitors = Visitors(2, 0)
    with visitors.stay("a"):
        with visitors.stay("a"):
            with pytest.raises(TooManyConnections, match="2 connections at once"):
                visitors.stay("a").__enter__()
            with visitors.stay("b"):
                pass
        with visitors.stay("a"):
            pass


def test_a_place_is_free_again_after_a_failure() -> None:
    visitors = Visitors(1, 0)
    for _ in range(3):
        with pytest.raises(RuntimeError), visitors.stay("a"):
            raise RuntimeError


def test_arrivals_per_minute() -> None:
    clock = Clock()
    visitors = Visitors(0, 60, clock)
    for _ in range(60):
        visitors.arrive("a")
    with pytest.raises(TooManyConnections, match="60 connections a minute"):
        visitors.arrive("a")
    visitors.arrive("b")
    clock.now = 1.0
    visitors.arrive("a")
    with pytest.raises(TooManyConnections):
        visitors.arrive("a")


def test_no_limits_and_nobody() -> None:
    visitors = Visitors(0, 0)
    for _ in range(5000):
        visitors.arrive("a")
    visitors = Visitors(1, 1)
    for _ in range(3):
        visitors.arrive(None)
        with visitors.stay(None), visitors.stay(None):
            pass
    assert len(visitors) == 0


def test_those_who_left_long_ago_are_forgotten() -> None:
    clock = Clock()
    visitors = Visitors(10, 60, clock)
    with visitors.stay("stays"):
        for number in range(20_000):
            clock.now += 1.0
            visitors.arrive(str(number))
        assert len(visitors) < 2500
        with visitors.stay("stays"):
            pass


def test_a_flood_is_remembered_while_it_lasts() -> None:
    clock = Clock()
    visitors = Visitors(10, 1, clock)
    for number in range(5000):
        visitors.arrive(str(number))
    with pytest.raises(TooManyConnections):
        visitors.arrive("0")
