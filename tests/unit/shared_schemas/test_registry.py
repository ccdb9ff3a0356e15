import pytest

from antiphon.shared_schemas.registry import SessionEvent, UnreadableEvent
from antiphon.shared_schemas.states import EndReason


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
