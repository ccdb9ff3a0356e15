"""Who stands at the door without a word."""

from __future__ import annotations

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from antiphon.edge.access import Access
from antiphon.edge.doorstep import Doorstep
from antiphon.edge.settings import EdgeSettings


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _doorstep(at_once: int, clock: Clock | None = None) -> Doorstep:
    rejected = Counter("rejections", "For the test.", ["reason"], registry=CollectorRegistry())
    access = Access(EdgeSettings(trusted_proxies=("10.0.0.0/8",)), "0.0.0.0")
    return Doorstep(10.0, at_once, access.knocker, rejected, clock or Clock())


def test_an_address_has_so_many_places_and_no_more() -> None:
    doorstep = _doorstep(2)
    here = [doorstep.knock("203.0.113.5") for _ in range(2)]
    with pytest.raises(OverflowError):
        doorstep.knock("203.0.113.5")
    assert doorstep.knock("203.0.113.6")
    doorstep.enter(here[0])
    assert doorstep.knock("203.0.113.5")


def test_a_household_of_ipv6_is_one_address() -> None:
    doorstep = _doorstep(1)
    doorstep.knock("2001:db8::1")
    with pytest.raises(OverflowError):
        doorstep.knock("2001:db8::2")
    assert doorstep.knock("2001:db8:0:1::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.1.2.3", ""])
def test_this_machine_and_proxies_are_not_counted(host: str) -> None:
    doorstep = _doorstep(1)
    for _ in range(5):
        assert doorstep.knock(host) is None
    assert len(doorstep) == 0


def test_nothing_is_kept_of_who_has_come_in() -> None:
    doorstep = _doorstep(0)
    for number in range(100):
        doorstep.enter(doorstep.knock(f"203.0.113.{number}"))
    assert len(doorstep) == 0
    assert not doorstep._waiting


def test_a_flood_is_worth_a_line_now_and_then() -> None:
    clock = Clock()
    doorstep = _doorstep(1, clock)
    doorstep.knock("203.0.113.5")
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            doorstep.too_slow()
        with pytest.raises(OverflowError):
            doorstep.knock("203.0.113.5")
        clock.now += 11
        doorstep.too_slow()
    assert [(line.get("request_timeout"), line.get("rate_limited")) for line in logs] == [
        (1, None),
        (5, 1),
    ]
