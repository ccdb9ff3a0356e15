"""Which entries of a session's streams are trimmed."""

from antiphon.inference_worker.sessions.conversation_past import (
    KEPT_OUTPUTS,
    TrimBounds,
    TrimPoints,
)
from antiphon.shared_schemas.entries import StreamPosition

TICKET, KEPT_S = 5, 90.0
LATE = 10_000_000.0


def place(n: int, epoch: int = 1) -> StreamPosition:
    return StreamPosition(TICKET, epoch, n)


def covering(n: int) -> TrimBounds:
    return TrimBounds(place(n), place(n))


def test_nothing_is_trimmed_that_recovery_needs() -> None:
    assert TrimPoints(TICKET, KEPT_S).due(LATE, place(900)) is None


def test_the_newest_part_is_kept_for_a_client_that_resumes() -> None:
    points = TrimPoints(TICKET, KEPT_S)
    for second in range(1, 201):
        points.add(second, covering(second))
    assert points.due(KEPT_S, place(200)) is None
    assert points.due(100.0, place(200)) == covering(10)
    assert points.due(150.0, place(200)) == covering(60)


def test_some_outputs_are_kept_whatever_their_age() -> None:
    points = TrimPoints(TICKET, KEPT_S)
    points.add(0.0, covering(10))
    points.add(1.0, covering(20))
    last = place(19 + KEPT_OUTPUTS)
    assert points.due(LATE, last) == TrimBounds(place(20), place(10))
    assert points.due(LATE, place(last.n + 1)) == covering(20)


def test_input_is_trimmed_while_there_is_no_output() -> None:
    points = TrimPoints(TICKET, KEPT_S)
    for second in range(1, 3601):
        points.add(second, points.covered._replace(inputs=place(second)))
    assert points.due(3600.0, place(3)) == TrimBounds(place(3510), StreamPosition.before(TICKET))


def test_trimming_waits_for_the_recorder() -> None:
    assert covering(60).up_to(place(40), place(70)) == TrimBounds(place(40), place(60))
    nothing = StreamPosition.before(TICKET)
    assert covering(60).up_to(nothing, nothing) == TrimBounds(nothing, nothing)


def test_a_position_of_a_resumed_connection_is_later() -> None:
    assert covering(60).up_to(place(61, epoch=2), place(60)) == covering(60)
