"""The checks of the random faults find what they are for."""

import random
from typing import Any

import pytest

from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import SessionKind, SessionState
from support.chaos.audit import TransitionAudit
from support.chaos.clients import ChaosSession
from support.chaos.system import SLOTS

S = SessionState


def event(state: SessionState, epoch: int, *, worker: str = "w1", ticket: int = 7) -> SessionEvent:
    return SessionEvent(
        sid=f"adx_{ticket}", kind=SessionKind.AUDIO_DUPLEX, ticket=ticket, epoch=epoch, attempt=1,
        edge="e1", recording="r", id="1-1", state=state, worker=worker, at=1,
    )  # fmt: skip


LIFE = [
    event(S.QUEUED, 0),
    event(S.ASSIGNED, 1),
    event(S.PREPARING, 1),
    event(S.ACTIVE, 1),
    event(S.RECOVERING, 1),
    event(S.ASSIGNED, 2, worker="w2"),
    event(S.ENDED, 2, worker="w2"),
]
BROKEN = {
    "claimed twice": [*LIFE[:4], event(S.ASSIGNED, 2, worker="w2")],
    "the same epoch again": [*LIFE[:5], event(S.ASSIGNED, 1, worker="w2")],
    "moved by another worker": [*LIFE[:3], event(S.ACTIVE, 1, worker="w2")],
    "continues after its end": [*LIFE, event(S.ASSIGNED, 3)],
    "more sessions than slots": [event(S.ASSIGNED, 1, ticket=n) for n in range(SLOTS + 1)],
}


def violations(events: list[SessionEvent]) -> list[str]:
    audit = TransitionAudit()
    for each in events:
        audit.add(each)
    return audit.violations


def test_a_whole_life_is_legal() -> None:
    assert violations(LIFE) == []


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN.keys())
def test_broken_lives_are_found(events: list[SessionEvent]) -> None:
    assert violations(events)


def result(seq: int, number: int) -> dict[str, Any]:
    return {
        "type": "result",
        "seq": seq,
        "is_listen": True,
        "text": "",
        "current_time": 500 * number,
    }


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([result(1, 1), result(2, 2)], 0),
        ([result(1, 1), result(3, 2)], 0),
        ([result(1, 1), result(1, 1)], 2),
        ([result(1, 1), result(2, 3)], 1),
        ([result(1, 1), result(2, 1)], 1),
    ],
    ids=["in order", "sparse numbers", "message again", "result missing", "result again"],
)
def test_a_client_finds_lost_and_doubled_messages(
    messages: list[dict[str, Any]], found: int
) -> None:
    session = ChaosSession("adx_1", [], random.Random(1), 1.0)
    for message in messages:
        session._take(message)
    assert len(session.violations) == found
