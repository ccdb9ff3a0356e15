"""Notices of a session to its connection, and which places are sent."""

import asyncio

import pytest

from antiphon.edge.protocols.machine import QueuePlace
from antiphon.edge.session_events import (
    Ended,
    PlaceFilter,
    SessionSubscription,
    Signal,
    update_places,
)
from antiphon.shared_schemas.registry import (
    QueuedSession,
    QueueSnapshot,
    RunningSession,
    SessionEvent,
    Ticket,
)
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WaitReason
from support.clock import Clock


def _event(state: SessionState, ticket: int = 7, reason: EndReason | None = None) -> SessionEvent:
    return SessionEvent(
        id="1-1",
        sid="adx_1",
        state=state,
        kind=SessionKind.AUDIO_DUPLEX,
        ticket=ticket,
        epoch=1,
        attempt=1,
        edge="e",
        worker="w",
        recording="r",
        at=0,
        reason=reason,
    )


def _subscription() -> SessionSubscription:
    subscription = SessionSubscription("adx_1")
    subscription.bind(7)
    return subscription


async def _has_no_notice(subscription: SessionSubscription) -> bool:
    try:
        async with asyncio.timeout(0.01):
            await subscription.next_notice()
    except TimeoutError:
        return True
    return False


async def test_only_the_newest_place_is_a_notice() -> None:
    subscription = _subscription()
    for position in (3, 2, 1):
        subscription.update_place(QueuePlace("7", position, 3, 1.0))
    assert await subscription.next_notice() == QueuePlace("7", 1, 3, 1.0)
    assert await _has_no_notice(subscription)


async def test_a_grant_is_one_notice_and_ends_the_wait() -> None:
    subscription = _subscription()
    subscription.update_place(QueuePlace("7", 1, 1, 0.0))
    subscription.on_event(_event(SessionState.ASSIGNED))
    subscription.on_event(_event(SessionState.ASSIGNED))
    subscription.update_place(QueuePlace("7", 1, 1, 0.0))
    assert await subscription.next_notice() is Signal.GRANTED
    assert await _has_no_notice(subscription)


async def test_a_session_that_lost_its_worker_waits_until_it_is_granted_again() -> None:
    subscription = _subscription()
    subscription.on_event(_event(SessionState.ASSIGNED))
    subscription.on_event(_event(SessionState.RECOVERING))
    assert await subscription.next_notice() is Signal.GRANTED
    subscription.update_place(QueuePlace("7", 1, 1, 0.0))
    assert await subscription.next_notice() == QueuePlace("7", 1, 1, 0.0)
    subscription.update_place(QueuePlace("7", 1, 2, 0.0))
    subscription.on_event(_event(SessionState.ASSIGNED))
    assert await subscription.next_notice() is Signal.GRANTED
    assert await _has_no_notice(subscription)


async def test_the_state_at_a_resume_is_older_than_the_events() -> None:
    for recovering in (False, True):
        subscription = SessionSubscription("adx_1")
        if not recovering:
            subscription.on_event(_event(SessionState.RECOVERING))
        subscription.bind(7, 2, granted=True, recovering=recovering)
        assert await subscription.next_notice() is Signal.GRANTED
        assert subscription.waiting


async def test_the_last_place_is_marked_stale_once() -> None:
    subscription = _subscription()
    subscription.mark_place_stale()
    assert await _has_no_notice(subscription)  # there is no place yet
    subscription.update_place(QueuePlace("7", 2, 3, 1.0))
    assert await subscription.next_notice() == QueuePlace("7", 2, 3, 1.0)
    subscription.mark_place_stale()
    assert await subscription.next_notice() == QueuePlace("7", 2, 3, 1.0, stale=True)
    subscription.mark_place_stale()
    assert await _has_no_notice(subscription)


async def test_events_before_the_ticket_was_known_count() -> None:
    subscription = SessionSubscription("adx_1")
    subscription.on_event(_event(SessionState.ENDED, ticket=6, reason=EndReason.STOPPED))
    subscription.on_event(_event(SessionState.ASSIGNED, ticket=7))
    subscription.bind(7)
    assert await subscription.next_notice() is Signal.GRANTED
    assert await _has_no_notice(subscription)


async def test_another_session_of_the_same_id_is_ignored() -> None:
    subscription = _subscription()
    subscription.on_event(_event(SessionState.ASSIGNED, ticket=8))
    subscription.on_event(_event(SessionState.ENDED, ticket=6, reason=EndReason.STOPPED))
    assert await _has_no_notice(subscription)


async def test_a_notice_wakes_its_reader() -> None:
    subscription = _subscription()
    waiting = asyncio.create_task(subscription.next_notice())
    await asyncio.sleep(0)
    subscription.on_event(_event(SessionState.ENDED, reason=EndReason.CANCELLED))
    assert await waiting == Ended(EndReason.CANCELLED)
    subscription.notify(Signal.EDGE_CLOSING)
    assert await subscription.next_notice() is Signal.EDGE_CLOSING


def _snapshot(waiting: list[str], running: list[str]) -> QueueSnapshot:
    kind = SessionKind.AUDIO_DUPLEX
    queued = tuple(
        QueuedSession(sid=sid, kind=kind, ticket=n, position=n, queued_at=0, eta_s=n * 1.26)
        for n, sid in enumerate(waiting, start=1)
    )
    return QueueSnapshot(
        at=0,
        waiting=queued,
        places=queued,
        running=tuple(
            RunningSession(
                sid=sid,
                kind=kind,
                worker="w",
                state=SessionState.ACTIVE,
                assigned_at=0,
                elapsed_s=0,
                remaining_s=0,
            )
            for sid in running
        ),
        workers=(),
    )


async def test_a_snapshot_gives_every_session_a_place_or_a_grant() -> None:
    subscriptions = {sid: SessionSubscription(sid) for sid in ("a", "b", "c")}
    for number, subscription in enumerate(subscriptions.values()):
        subscription.bind(number)
    update_places(_snapshot(["elsewhere", "b"], ["a"]), subscriptions)
    assert await subscriptions["a"].next_notice() is Signal.GRANTED
    assert await subscriptions["b"].next_notice() == QueuePlace("1", 2, 2, 2.5)
    assert await _has_no_notice(subscriptions["c"])


def _report(*, wait: bool, clock: Clock) -> PlaceFilter:
    return PlaceFilter(Ticket(number=7, position=3, queue_length=4, wait=wait), clock)


@pytest.mark.parametrize(
    ("place", "worth"),
    [
        (QueuePlace("7", 3, 4, 10.0), False),
        (QueuePlace("7", 3, 4, 9.5), False),
        (QueuePlace("7", 3, 4, 9.0), True),
        (QueuePlace("7", 3, 5, 10.0), True),
        (QueuePlace("7", 2, 4, 10.0), True),
        (QueuePlace("7", 3, 4, None, reason=WaitReason.NO_WORKER), True),
    ],
)
def test_only_changes_are_sent(place: QueuePlace, worth: bool) -> None:
    report = _report(wait=True, clock=Clock())
    report.select(QueuePlace("7", 3, 4, 10.0))
    assert (report.select(place) is not None) is worth


def test_the_mark_of_a_stale_place_is_sent_and_cleared() -> None:
    report = _report(wait=True, clock=Clock())
    assert (
        report.select(QueuePlace("7", 3, 4, 10.0, stale=True)) is None
    )  # the client does not know it
    report.select(QueuePlace("7", 3, 4, 10.0))
    stale = report.select(QueuePlace("7", 3, 4, 10.0, stale=True))
    assert stale == QueuePlace("7", 3, 4, 10.0, stale=True)
    assert report.select(QueuePlace("7", 3, 4, 10.0)) == QueuePlace("7", 3, 4, 10.0)


def test_small_changes_add_up() -> None:
    report = _report(wait=True, clock=Clock())
    report.select(QueuePlace("7", 3, 4, 10.0))
    assert report.select(QueuePlace("7", 3, 4, 9.4)) is None
    assert report.select(QueuePlace("7", 3, 4, 8.8)) is not None


def test_a_place_is_sent_after_a_second_if_no_wait_was_expected() -> None:
    clock = Clock()
    report = _report(wait=False, clock=clock)
    assert report.select(QueuePlace("7", 1, 1, 0.0)) is None
    clock.now += 1.0
    sent = report.select(QueuePlace("7", 1, 1, 0.0))
    assert sent is not None
    assert sent.first
