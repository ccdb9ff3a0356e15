import pytest

from antiphon.shared_schemas.registry import SessionEvent, UnreadableEvent
from antiphon.shared_schemas.states import (
    HELD_STATES,
    LEGAL_MOVES,
    WAITING_STATES,
    EndReason,
    SessionKind,
    SessionState,
)


def test_every_state_is_waiting_held_or_ended() -> None:
    assert HELD_STATES | WAITING_STATES | {SessionState.ENDED} == set(SessionState)
    assert not HELD_STATES & WAITING_STATES


def test_every_state_has_its_moves_and_only_ended_has_none() -> None:
    assert set(LEGAL_MOVES) == set(SessionState)
    assert [state for state, targets in LEGAL_MOVES.items() if not targets] == [SessionState.ENDED]


def test_any_live_session_may_end_and_any_held_one_may_lose_its_worker() -> None:
    for state in set(SessionState) - {SessionState.ENDED}:
        assert SessionState.ENDED in LEGAL_MOVES[state]
    for state in HELD_STATES:
        assert SessionState.RECOVERING in LEGAL_MOVES[state]


def test_a_waiting_session_becomes_active_only_through_a_claim() -> None:
    for state in WAITING_STATES:
        assert LEGAL_MOVES[state] == {SessionState.ASSIGNED, SessionState.ENDED}


@pytest.mark.parametrize("kind", SessionKind)
def test_two_kinds_are_full_duplex(kind: SessionKind) -> None:
    assert kind.is_duplex == kind.value.endswith("_duplex")


def test_an_event_is_read_back_from_its_fields() -> None:
    data = {
        *((b"sid", b"adx_1"), (b"state", b"ended"), (b"kind", b"audio_duplex"), (b"ticket", b"9")),
        *((b"epoch", b"2"), (b"attempt", b"1"), (b"edge", b"e"), (b"worker", b"w")),
        *((b"recording", b"r"), (b"at", b"1700000000000"), (b"reason", b"stopped")),
    }
    event = SessionEvent.parse(b"5-0", dict(data))
    assert (event.id, event.ticket, event.epoch, event.at) == ("5-0", 9, 2, 1_700_000_000_000)
    assert event.reason is EndReason.STOPPED
    assert SessionEvent.parse(b"5-0", dict(data - {(b"reason", b"stopped")})).reason is None


@pytest.mark.parametrize("data", [{}, {b"sid": b"\xff"}, {b"sid": b"a", b"state": b"flying"}])
def test_an_event_of_another_form_is_unreadable(data: dict[bytes, bytes]) -> None:
    with pytest.raises(UnreadableEvent, match="5-0"):
        SessionEvent.parse(b"5-0", data)
