"""The lines of `antiphon events`."""

from itertools import product

from antiphon.cli.commands.live import event_line
from antiphon.shared_schemas.registry import SessionEvent
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState


def test_an_event_fits_into_80_columns() -> None:
    for kind, state, reason in product(SessionKind, SessionState, EndReason):
        event = SessionEvent(
            id="1-0",
            sid="adx_" + "1" * 20,
            kind=kind,
            state=state,
            at=1,
            reason=reason,
            worker="worker-" + "1" * 80,
            edge="edge-1",
            ticket=1,
            epoch=1,
            attempt=1,
            recording="",
        )
        assert len(event_line(event)) <= 80
        assert event.worker in event_line(event, wide=True)
