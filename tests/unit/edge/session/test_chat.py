"""How long a chat that is one call waits for its worker."""

import asyncio
from dataclasses import replace

import pytest

from antiphon.edge.errors import ChatFailed, Close
from antiphon.edge.protocols.machine import QueuePlace
from antiphon.edge.session.chat import wait_for_grant
from antiphon.edge.session_events import PlaceFilter, SessionSubscription, Signal
from antiphon.shared_schemas.registry import Ticket
from antiphon.shared_schemas.states import EndReason, WaitReason

NO_WORKER = QueuePlace("7", 1, 1, None, reason=WaitReason.NO_WORKER)
LOADING = replace(NO_WORKER, reason=WaitReason.WORKER_LOADING)
PLACE = QueuePlace("7", 2, 3, 4.5)
TICKET = Ticket(number=7, position=1, queue_length=1, wait=True)
LONG_S = 60.0


@pytest.fixture
async def subscription() -> SessionSubscription:
    subscription = SessionSubscription("chat_1")
    subscription.bind(7)
    return subscription


async def _wait(subscription: SessionSubscription, grace_s: float) -> float | None:
    return await wait_for_grant(subscription, PlaceFilter(TICKET), grace_s)


async def _read(subscription: SessionSubscription, place: QueuePlace) -> None:
    """The task that waits takes this place before a newer one replaces it."""
    subscription.update_place(place)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_that_need_not_wait(subscription: SessionSubscription) -> None:
    subscription.grant()
    assert await _wait(subscription, LONG_S) == 0


async def test_the_first_estimate_counts(subscription: SessionSubscription) -> None:
    waiting = asyncio.create_task(_wait(subscription, LONG_S))
    await _read(subscription, PLACE)
    await _read(subscription, replace(PLACE, position=1, eta_s=1.0))
    subscription.grant()
    assert await waiting == 4.5


async def test_a_request_without_a_worker_is_refused_after_a_while(
    subscription: SessionSubscription,
) -> None:
    waiting = asyncio.create_task(_wait(subscription, 0.02))
    await _read(subscription, NO_WORKER)
    with pytest.raises(ChatFailed, match="no worker is connected; try again later") as failed:
        await waiting
    assert failed.value.fault.close is Close.TRY_LATER
    assert (failed.value.fault.message.code, failed.value.reason) == ("no_worker", EndReason.ERROR)


@pytest.mark.parametrize("place", [PLACE, LOADING])
async def test_a_worker_that_comes_is_waited_for(
    subscription: SessionSubscription, place: QueuePlace
) -> None:
    waiting = asyncio.create_task(_wait(subscription, 0.02))
    await _read(subscription, NO_WORKER)
    await _read(subscription, place)
    await asyncio.sleep(0.04)
    subscription.grant()
    assert await waiting is None


async def test_ends_in_the_queue(subscription: SessionSubscription) -> None:
    subscription.end(EndReason.CANCELLED)
    with pytest.raises(ChatFailed) as cancelled:
        await _wait(subscription, LONG_S)
    assert (cancelled.value.fault.message.code, cancelled.value.reason) == (
        "cancelled",
        EndReason.CANCELLED,
    )
    subscription.notify(Signal.EDGE_CLOSING)
    with pytest.raises(ChatFailed) as closing:
        await _wait(subscription, LONG_S)
    assert closing.value.fault.close is Close.RESTART
