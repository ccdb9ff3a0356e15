import typing

import orjson
import pytest
from msgspec import structs

from antiphon.shared_schemas.messages.duplex import DuplexServerMessage, Prepared, Result
from antiphon.shared_schemas.states import WaitReason
from antiphon.shared_schemas.wire import Error, Queued, QueueDone, QueueUpdate, Stopped, encode_text

SEED_RESULT_FIELDS = {
    *("type", "is_listen", "text", "audio_data", "end_of_turn", "current_time", "cost_llm_ms"),
    *("cost_tts_ms", "cost_all_ms", "n_tokens", "n_tts_tokens", "server_send_ts"),
}
RESULT = Result(
    is_listen=True,
    text="",
    audio_data=b"",
    end_of_turn=False,
    current_time=0,
    cost_llm_ms=0.0,
    cost_tts_prep_ms=0.0,
    cost_tts_ms=0.0,
    cost_token2wav_ms=0.0,
    cost_all_ms=0.0,
    n_tokens=0,
    n_tts_tokens=0,
    server_send_ts=0.0,
    wall_clock_ms=0.0,
    kv_cache_length=0,
    vision_slices=0,
    vision_tokens=0,
)


def test_an_empty_result_has_every_field_of_the_reference_server() -> None:
    wire = orjson.loads(encode_text(RESULT).text())
    assert wire.keys() >= SEED_RESULT_FIELDS
    assert (wire["type"], wire["text"], wire["audio_data"]) == ("result", "", "")
    assert "simulated" not in wire


@pytest.mark.parametrize("kind", [Queued, QueueUpdate])
def test_a_place_has_both_names_of_the_estimate(kind: type[Queued]) -> None:
    message = kind(ticket_id="7", position=2, queue_length=3, eta_seconds=4.5, estimated_wait_s=4.5)
    assert message.wire() == {
        "type": "queued" if kind is Queued else "queue_update",
        "ticket_id": "7",
        "position": 2,
        "queue_length": 3,
        "eta_seconds": 4.5,
        "estimated_wait_s": 4.5,
    }


def test_a_place_without_an_estimate_has_a_reason() -> None:
    message = Queued(ticket_id="7", position=1, queue_length=1, reason=WaitReason.NO_WORKER)
    assert orjson.loads(encode_text(message).text()) == {
        "type": "queued",
        "ticket_id": "7",
        "position": 1,
        "queue_length": 1,
        "reason": "no_worker",
    }


def test_fields_that_are_none_are_left_out() -> None:
    assert QueueDone().wire() == {"type": "queue_done"}
    assert Prepared(prompt_length=9, recording_session_id=None).wire() == {
        "type": "prepared",
        "prompt_length": 9,
    }
    error = Error(error="no", message="no", code="internal").wire()
    assert error == {"type": "error", "error": "no", "message": "no", "code": "internal"}


def test_text_of_any_language_is_encoded_as_it_is() -> None:
    assert orjson.loads(encode_text(structs.replace(RESULT, text="你好 \U0001f600 \u2028")).text())[
        "text"
    ] == ("你好 \U0001f600 \u2028")
    assert (
        encode_text(Stopped(session_id="adx_1")).text() == '{"type":"stopped","session_id":"adx_1"}'
    )


def test_types_identify_messages() -> None:
    kinds = typing.get_args(DuplexServerMessage)
    assert len({kind.type for kind in kinds}) == len(kinds) == 11


def test_audio_is_not_confused_with_the_text_around_it() -> None:
    text = 'Say "audio_data":"AAAA", \\ \u2028 and \U0001f600.'
    message = structs.replace(RESULT, text=text, audio_data=b"sound", user_text=text)
    wire = orjson.loads(encode_text(message).text())
    assert (wire["text"], wire["user_text"], wire["audio_data"]) == (text, text, "c291bmQ=")
    assert list(wire) == list(message.wire())


def test_a_message_with_something_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_text(structs.replace(RESULT, timing={"engine_ms": object()})).text()
