"""OpenAI's Realtime API without a worker: settings, events of clients, and what the machine makes of them."""

import base64
from typing import Any

import numpy as np
import pytest

from antiphon.edge.errors import Close, explain
from antiphon.edge.media.audio_formats import AudioFormat, FormatEncoder
from antiphon.edge.protocols.machine import Finish, QueuePlace
from antiphon.edge.protocols.openai_realtime.decoder import (
    AppendSound,
    Engines,
)
from antiphon.edge.protocols.openai_realtime.input import MOST_SOUND_S
from antiphon.edge.protocols.openai_realtime.settings import (
    RealtimeState,
    new_session,
    updated_session,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, float_bytes
from antiphon.shared_schemas.content import AudioPart, ImagePart, Role
from antiphon.shared_schemas.entries import (
    CancelIn,
    ChunkIn,
    CommitIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    ItemIn,
    ItemOut,
    RespondIn,
    SettingsIn,
    TimeoutOut,
    TranscriptOut,
    TruncateItemIn,
    TurnDoneOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.openai_realtime import BETA_FIELDS
from support.edge_harness import picture
from support.openai_realtime_edge import RealtimeClient
from support.sound_files import wav

TEXT_ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
PLACE = QueuePlace("1", 3, 3, 10.0, first=True)


@pytest.fixture
def client() -> RealtimeClient:
    client = RealtimeClient()
    assert [e["type"] for e in client.take(client.machine.placed(PLACE))] == ["session.created"]
    return client


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def error(events: list[dict[str, Any]]) -> dict[str, Any]:
    [event] = events
    assert event["type"] == "error"
    found: dict[str, Any] = event["error"]
    return found


def test_the_greeting_comes_before_every_other_event() -> None:
    client = RealtimeClient()
    assert kinds(client.update(instructions="Be brief.")) == ["session.created", "session.updated"]
    assert client.take(client.machine.placed(PLACE)) == []
    assert client.take(client.machine.worker_lost(PLACE)) == []


def test_every_beta_field_names_its_successor(client: RealtimeClient) -> None:
    for field, new in BETA_FIELDS.items():
        refused = error(client.update(**{field: None}))
        assert refused["code"] == "beta_api_shape_disabled"
        assert (new or "leave it out") in refused["message"]
    refused = error(client.send("transcription_session.update", session={}))
    assert "session.update" in refused["message"]


def test_one_bad_field_refuses_the_whole_update(client: RealtimeClient) -> None:
    assert error(client.update(instructions="A", voice="alloy"))["param"] == "session.voice"
    assert client.state.session["instructions"] != "A"


@pytest.mark.parametrize("levels", [40, 300, 900])
def test_objects_that_are_nested_too_deep_are_refused(client: RealtimeClient, levels: int) -> None:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"a": nested}
    assert "nested" in error(client.update(tracing={"metadata": nested}))["message"]
    assert kinds(client.update(instructions="A")) == ["session.updated"]


def test_errors_name_the_field_and_the_event(client: RealtimeClient) -> None:
    for event, code, param in (
        ({"type": "what"}, "invalid_value", "type"),
        ({"type": "conversation.item.create"}, "missing_required_parameter", "item"),
        ({"type": "input_audio_buffer.append", "audio": "!"}, "invalid_value", "audio"),
        ({"type": "session.update", "session": {}}, "missing_required_parameter", "session.type"),
        (
            {"type": "conversation.item.create", "item": {"type": "message", "role": "user"}},
            "missing_required_parameter",
            "item.content",
        ),
        (
            {"type": "response.create", "response": {"max_output_tokens": 0}},
            "invalid_value",
            "response.max_output_tokens",
        ),
        (
            {"type": "response.create", "response": {"input": [{"type": "message"}]}},
            "missing_required_parameter",
            "response.input.0.role",
        ),
    ):
        fields: dict[str, Any] = {**event, "event_id": "e1"}
        refused = error(client.send(fields.pop("type"), **fields))
        assert (refused["code"], refused["param"], refused["event_id"]) == (code, param, "e1")


@pytest.mark.parametrize(
    ("data", "problem"),
    [(wav(), "a WAV file"), (np.sin(np.arange(480) / 10).astype("<f4").tobytes(), "float32")],
)
def test_sound_in_another_format_is_refused(
    client: RealtimeClient, data: bytes, problem: str
) -> None:
    sound = base64.b64encode(data).decode()
    content = [{"type": "input_audio", "audio": sound}]
    item = {"type": "message", "role": "user", "content": content}
    for sent, field in (
        (client.send("input_audio_buffer.append", audio=sound), "audio"),
        (client.send("conversation.item.create", item=item), "item.content.0.audio"),
    ):
        refused = error(sent)
        assert (refused["code"], refused["param"]) == ("invalid_value", field)
        assert problem in refused["message"]


def test_a_detector_keeps_its_type_and_its_other_settings() -> None:
    state = RealtimeState(new_session("s", "m", 1))

    def changed(detection: Any) -> Any:
        audio = {"input": {"turn_detection": detection}}
        state.session = updated_session(state, {"type": "realtime", "audio": audio})
        return state.session["audio"]["input"]["turn_detection"]

    assert changed({"threshold": 0.9})["silence_duration_ms"] == 500
    assert changed({"silence_duration_ms": 300})["threshold"] == 0.9
    assert changed({"type": "semantic_vad", "eagerness": "low"}) == {
        "type": "semantic_vad",
        "eagerness": "low",
        "create_response": True,
        "interrupt_response": True,
    }
    config = state.config()
    assert config.vad
    assert config.vad.min_silence_duration_ms == 1500
    assert changed({"create_response": False})["eagerness"] == "low"
    assert changed(None) is None
    assert state.config().vad is None
    assert changed({"threshold": 0.0})["type"] == "server_vad"
    config = state.config()
    assert config.vad
    assert config.vad.threshold == 0.01


def test_what_the_client_sends_in_the_queue_is_kept_in_order(client: RealtimeClient) -> None:
    client.update(audio={"input": {"turn_detection": None}}, output_modalities=["text"])
    sound = base64.b64encode(bytes(2 * OUTPUT_RATE)).decode()
    assert client.send("input_audio_buffer.append", audio=sound) == []
    assert client.send("input_audio_buffer.commit") == []
    added = client.send("conversation.item.create", item=TEXT_ITEM)
    assert kinds(added) == ["conversation.item.added", "conversation.item.done"]
    created = client.send("response.create", response={"metadata": {"a": "b"}})
    assert created[0]["type"] == "response.created"
    assert created[0]["response"]["metadata"] == {"a": "b"}
    held = client.grant()
    assert [type(entry) for entry in held] == [SettingsIn, ChunkIn, CommitIn, ItemIn, RespondIn]
    settings, chunk = held[0], held[1]
    assert isinstance(settings, SettingsIn)
    assert isinstance(chunk, ChunkIn)
    assert not settings.config.tts.enabled
    assert settings.config.vad is None
    assert len(chunk.audio) == 2 * INPUT_RATE


def test_the_oldest_sound_of_the_queue_is_dropped_and_counted(client: RealtimeClient) -> None:
    for _ in range(MOST_SOUND_S + 8):
        client.state.sound.add(bytes(2 * OUTPUT_RATE), AudioFormat.PCM_24K)
        client.take(client.machine.receive(AppendSound()))
    held = [entry for entry in client.grant() if isinstance(entry, ChunkIn)]
    assert sum(len(entry.audio) for entry in held) <= 2 * INPUT_RATE * MOST_SOUND_S
    dropped_ms = client.machine._waiting.dropped_ms
    assert 8000 <= dropped_ms <= 13_000
    [stopped, *_] = client.deliver(ItemOut(input_n=2, item_id="i", audio=b"", stopped_ms=100))
    assert stopped["audio_end_ms"] == 100 + dropped_ms


def test_sound_is_forwarded_before_the_command_behind_it(client: RealtimeClient) -> None:
    client.grant()
    quarter = base64.b64encode(bytes(480)).decode()  # 10 ms
    for _ in range(3):
        client.send("input_audio_buffer.append", audio=quarter)
    assert client.forwarded == []
    client.send("input_audio_buffer.commit", event_id="c")
    assert [type(entry) for entry in client.forwarded] == [SettingsIn, ChunkIn, CommitIn]


def test_a_refused_command_loses_nothing_that_came_before(client: RealtimeClient) -> None:
    client.grant()
    sound = base64.b64encode(bytes(480)).decode()
    client.send("input_audio_buffer.append", audio=sound)
    assert error(client.send("response.cancel"))["code"] == "response_cancel_not_active"
    assert [type(entry) for entry in client.forwarded] == [SettingsIn, ChunkIn]
    events = RealtimeClient().send("response.cancel")
    assert kinds(events) == ["session.created", "error"]


def refusal(client: RealtimeClient) -> list[dict[str, Any]]:
    """What a client learns when the last input cannot be written."""
    refused = InvalidInput("too much", field="type", code=ErrorCode.INPUT_BACKPRESSURE)
    return client.take(client.machine.report(explain(refused)))


def test_sound_that_is_refused_again_and_again_is_reported_once(client: RealtimeClient) -> None:
    client.grant()
    tenth = base64.b64encode(bytes(2 * OUTPUT_RATE // 10)).decode()

    def append(*, taken: bool) -> list[str]:
        sent = client.send("input_audio_buffer.append", audio=tenth)
        return kinds([*sent, *([] if taken else refusal(client))])

    assert append(taken=False) == ["error"]
    for _ in range(30):  # the queue of an edge has room now and then
        assert append(taken=False) == []
        assert append(taken=True) == []
    for _ in range(20):
        assert append(taken=True) == []
    assert append(taken=False) == ["error"]
    client.send("input_audio_buffer.commit")
    assert kinds([*refusal(client), *refusal(client)]) == ["error", "error"]  # not sound


def test_sound_that_is_sent_too_far_ahead_is_reported_once(client: RealtimeClient) -> None:
    client.grant()
    ten_s = base64.b64encode(bytes(10 * 2 * OUTPUT_RATE)).decode()
    events = [client.send("input_audio_buffer.append", audio=ten_s) for _ in range(9)]
    assert [kinds(each) for each in events] == [[]] * 6 + [["error"], [], []]


def test_an_answer_that_waits_is_cancelled_at_once(client: RealtimeClient) -> None:
    [created] = client.send("response.create")
    done = client.send("response.cancel", response_id=created["response"]["id"])
    assert kinds(done) == ["response.done", "rate_limits.updated"]
    assert done[0]["response"]["status_details"]["reason"] == "client_cancelled"
    assert not [entry for entry in client.grant() if isinstance(entry, RespondIn)]
    refused = error(client.send("response.cancel"))
    assert refused["message"].startswith("Cancellation failed")


def test_a_cancel_without_an_id_is_for_the_conversation(client: RealtimeClient) -> None:
    client.grant()
    [beside] = client.send("response.create", response={"conversation": "none"})
    assert beside["type"] == "response.created"  # it may have to wait for another answer
    assert error(client.send("response.cancel"))["code"] == "response_cancel_not_active"
    client.send("response.create")
    [wanted] = [each for each in client.forwarded if isinstance(each, RespondIn)][1:]
    assert client.send("response.cancel") == []
    assert client.send("response.cancel", response_id=beside["response"]["id"]) == []
    cancelled = [each.response_id for each in client.forwarded if isinstance(each, CancelIn)]
    assert cancelled == [wanted.response_id, beside["response"]["id"]]


def test_an_answer_can_be_asked_for_while_another_one_ends(client: RealtimeClient) -> None:
    """Clients send both at once when their user interrupts."""
    client.grant()
    client.send("response.create")
    [first] = [each for each in client.forwarded if isinstance(each, RespondIn)]
    client.deliver(
        GeneratingOut(
            input_n=1,
            turn_index=0,
            speech_duration_ms=0,
            response_id=first.response_id,
            item_id="i",
        )
    )
    assert error(client.send("response.create"))["code"].endswith("has_active_response")
    for kind in ("response.cancel", "response.cancel", "response.create"):
        assert client.send(kind) == []
    sent = [type(each) for each in client.forwarded]
    assert sent[-2:] == [CancelIn, RespondIn]
    cancelled = TurnDoneOut(
        input_n=2, turn_index=0, text="", stopped=True, response_id=first.response_id
    )
    assert kinds(client.deliver(cancelled))[0] == "response.done"
    assert client.send("response.cancel") == []  # the second
    assert isinstance(client.forwarded[-1], CancelIn)


def test_an_item_that_does_not_exist_is_named(client: RealtimeClient) -> None:
    asked = {"input": [TEXT_ITEM, {"type": "item_reference", "id": "gone"}]}
    refused = error(client.send("response.create", response=asked))
    assert (refused["param"], "'gone'" in refused["message"]) == ("response.input.1.id", True)
    for verb in ("retrieve", "delete"):
        refused = error(client.send(f"conversation.item.{verb}", item_id="gone"))
        assert refused["code"] == f"item_{verb}_invalid_item_id"


def answer(client: RealtimeClient, **done: Any) -> list[dict[str, Any]]:
    sound = float_bytes(np.zeros(OUTPUT_RATE, np.float32))
    begun = GeneratingOut(
        input_n=1, turn_index=0, speech_duration_ms=0, response_id="resp_1", item_id="item_1"
    )
    fields = {"text": "one two three four", "response_id": "resp_1", **done}
    return [
        *client.deliver(begun),
        *client.deliver(DeltaOut(text_delta="one two three four", audio=sound)),
        *client.deliver(TurnDoneOut(input_n=1, turn_index=0, **fields)),
    ]


def test_a_truncated_answer_keeps_the_words_that_were_played(client: RealtimeClient) -> None:
    client.grant()
    events = answer(client)
    assert sum(event["type"] == "response.output_audio.delta" for event in events) == 3
    for at_ms, words in ((5000, "one two three four"), (500, "one two"), (0, "")):
        fields = {"item_id": "item_1", "content_index": 0, "audio_end_ms": at_ms}
        assert kinds(client.send("conversation.item.truncate", **fields)) == [
            "conversation.item.truncated"
        ]
        [shown] = client.send("conversation.item.retrieve", item_id="item_1")
        assert shown["item"]["content"][0]["transcript"] == words
    gone = {"item_id": "gone", "content_index": 0, "audio_end_ms": 1}
    assert kinds(client.send("conversation.item.truncate", **gone)) == [
        "conversation.item.truncated"
    ]
    assert sum(isinstance(entry, TruncateItemIn) for entry in client.forwarded) == 3


def test_why_an_answer_is_not_complete(client: RealtimeClient) -> None:
    client.grant()
    done = answer(client, stopped=True, reason="turn_detected")[-2]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
    client = RealtimeClient()
    client.grant()
    done = answer(client, reason="max_output_tokens")[-2]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
    client = RealtimeClient()
    client.grant()
    client.send("response.create")
    response_id = next(e for e in client.forwarded if isinstance(e, RespondIn)).response_id
    begun: dict[str, Any] = {"input_n": 1, "turn_index": 0, "speech_duration_ms": 0}
    client.deliver(GeneratingOut(**begun, response_id=response_id))
    assert client.deliver(ErrorOut(code="invalid_field", message="no tools", field="tools")) == []
    failed = TurnDoneOut(input_n=1, turn_index=0, text="", failed=True, response_id=response_id)
    done = client.deliver(failed)[0]["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"]["message"] == "no tools"


def test_transcripts_are_sent_to_clients_that_asked_and_kept_for_all(
    client: RealtimeClient,
) -> None:
    client.grant()
    client.deliver(ItemOut(input_n=1, item_id="i"))
    transcript = TranscriptOut(input_n=1, item_id="i", text="Hello.", seconds=1.5)
    assert client.deliver(transcript) == []
    [shown] = client.send("conversation.item.retrieve", item_id="i")
    assert shown["item"]["content"][0]["transcript"] == "Hello."
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    delta, completed = client.deliver(transcript)
    assert (delta["delta"], completed["transcript"]) == ("Hello.", "Hello.")
    assert completed["usage"] == {"type": "duration", "seconds": 1.5}
    none = TranscriptOut(input_n=1, item_id="i", text=None, seconds=1.5, problem="no recogniser")
    [failed] = client.deliver(none)
    assert failed["error"]["code"] == "transcription_unavailable"


def test_sound_of_an_item_is_decoded(client: RealtimeClient) -> None:
    client.update(audio={"input": {"format": {"type": "audio/pcma"}}})
    data = FormatEncoder(AudioFormat.PCMA).encode(np.zeros(OUTPUT_RATE, np.float32))
    part = {"type": "input_audio", "audio": base64.b64encode(data).decode()}
    item = {"type": "message", "role": "user", "content": [part], "id": "spoken"}
    [added, _] = client.send("conversation.item.create", item=item)
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    [entry] = [held for held in client.grant() if isinstance(held, ItemIn)]
    [sound] = entry.restored().parts
    assert isinstance(sound, AudioPart)
    assert len(sound.samples()) == INPUT_RATE


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://example.com/cat.jpg", "send a data URL"),
        ("data:image/gif;base64,R0lGODlh", "send a data URL"),
        ("data:image/png;base64,R0lGODlhAQABAIAAAAAAAP", "GIF"),
        ("data:image/png;base64,@", "base64"),
        ("data:image/png;base64,", "only JPEG, PNG and WebP"),
        (picture("PNG", (5000, 4000)), "5000x4000 pixels"),
        (picture("PNG")[:-1], "end of the image is missing"),
        (picture("JPEG")[:-2], "end of the image is missing"),
        (picture("WEBP")[:-1], "end of the image is missing"),
        (None, "is required"),
    ],
)
def test_a_picture_that_cannot_be_used_is_named(
    client: RealtimeClient, url: str | bytes | None, says: str
) -> None:
    refused = error(client.send("conversation.item.create", item=shown(url)))
    assert refused["param"] == "item.content.0.image_url"
    assert says in refused["message"]
    refused = error(client.send("response.create", response={"input": [shown(url)]}))
    assert refused["param"] == "response.input.0.content.0.image_url"


def shown(url: str | bytes | None) -> dict[str, Any]:
    if isinstance(url, bytes):
        url = f"data:image/png;base64,{base64.b64encode(url).decode()}"
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": url}],
    }


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_picture_reaches_the_worker_as_it_is(client: RealtimeClient, form: str) -> None:
    data = picture(form, (64, 48))
    [added, _] = client.send("conversation.item.create", item=shown(data))
    assert added["item"]["content"] == [{"type": "input_image"}]
    [entry] = [each for each in client.grant() if isinstance(each, ItemIn)]
    assert entry.restored().parts == (ImagePart(data),)
    too_many = {**shown(data), "content": shown(picture("PNG"))["content"] * 1001}
    assert error(client.send("conversation.item.create", item=too_many))["param"] == "item.content"


def test_voices_are_those_of_the_engines(client: RealtimeClient) -> None:
    client.engines = Engines(known=True, voices=frozenset({"bella"}))
    refused = error(client.update(audio={"output": {"voice": "bob"}}))
    assert refused["param"] == "session.audio.output.voice"
    assert kinds(client.update(audio={"output": {"voice": "bella"}})) == ["session.updated"]
    assert client.state.voice == "bella"
    assert kinds(client.update(audio={"output": {"voice": {"id": "marin"}}})) == ["session.updated"]
    assert client.state.voice == ""


def test_calls_and_their_results_are_items(client: RealtimeClient) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "time", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    for item in (call, result):
        assert len(client.send("conversation.item.create", item=item)) == 2
    held = [entry.restored() for entry in client.grant() if isinstance(entry, ItemIn)]
    assert [message.role for message in held] == [Role.ASSISTANT, Role.TOOL]
    assert held[0].tool_calls[0].id == held[1].tool_call_id == "c1"


def test_a_transcription_session_has_no_answers() -> None:
    client = RealtimeClient(transcription=True)
    assert error(client.send("response.create")[1:])["param"] == "type"
    update = {"type": "transcription", "instructions": "x"}
    refused = error(client.send("session.update", session=update))
    assert refused["param"] == "session.instructions"
    assert not client.state.config().responds


def test_the_end_of_a_session(client: RealtimeClient) -> None:
    *events, finish = client.machine.deliver(TimeoutOut(reason="idle"), 0.0)
    assert error(client.take(events))["code"] == "session_expired"
    assert isinstance(finish, Finish)
    assert finish.close is Close.NORMAL
