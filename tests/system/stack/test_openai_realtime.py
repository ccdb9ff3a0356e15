"""OpenAI's Realtime API with its Python SDK, unmodified but for address and key, against real processes."""

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import soxr
import websockets
from openai import OpenAI
from PIL import Image

from antiphon.client.recordings import Recordings
from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder, FormatEncoder
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.recording import RecordingState, TurnRecording
from antiphon.shared_schemas.recording_list import RecordingInfo, RecordingQuery
from support.llm_server import MODEL, delta, says, scripted_server
from support.llm_server import Answer as LlmAnswer
from support.openai_realtime import realtime_user
from support.pictures import photograph, sign
from support.speech import say, share_voiced, words
from support.stack import Stack, new_stack, until
from support.synthetic_speech import GERMANY, ITALY

KEY = "the-key-of-realtime"
ADMIN = "the-admin-of-realtime"
SLOW = '{"slots": 2, "answer_pieces": 20, "speak_ms": 100, "prefill_ms": 0}'
NAME = "What is your name?"
"""The engine answers it by a rule, and recognises it at 8 kHz too."""
TEXT: Any = {"output_modalities": ["text"]}
TIME = {"type": "function", "name": "time", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Answers take two seconds. A key is needed."""
    with new_stack(tmp_path_factory.mktemp("realtime")) as running:
        running.edge(api_keys=KEY, admin_token=ADMIN)
        running.recorder()
        running.worker(engine_options=SLOW, slots=2)
        yield running
        assert running.tracebacks() == []


async def test_a_text_item_is_answered_in_speech(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        first = await user.add_text("Hello.", id="mine")
        assert (first.item.id, first.previous_item_id) == ("mine", None)
        await user.send("response.create", response={"metadata": {"topic": "a"}})
        answer = await user.answer()
    assert answer.response.status == "completed"
    assert answer.response.metadata == {"topic": "a"}
    assert answer.text.startswith("This is simulated.")
    assert len(answer.sound) == 20 * OUTPUT_RATE
    assert answer.response.output[0].content[0].transcript == answer.text
    assert answer.response.usage.output_tokens == 20
    assert [kind for kind in unrepeated(answer.events) if "delta" not in kind] == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]


def unrepeated(events: list[Any]) -> list[str]:
    kinds = [each.type for each in events]
    return [kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind]


async def test_an_answer_is_cancelled_and_truncated_without_errors(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        await user.update(**TEXT)
        await user.send("response.cancel", event_id="early")
        refused = (await user.until("error")).error
        assert (refused.code, refused.event_id) == ("response_cancel_not_active", "early")
        await user.send("response.create")
        await user.until("response.output_text.delta")
        await user.send("response.create", event_id="second")
        refused = (await user.until("error")).error
        assert refused.code == "conversation_already_has_active_response"
        assert refused.event_id == "second"
        await user.send("response.cancel")
        await user.send("response.create")  # as clients do on an interruption
        done = (await user.until("response.done")).response
        assert (done.status, done.status_details.reason) == ("cancelled", "client_cancelled")
        [item] = done.output
        assert item.status == "incomplete"
        await user.send(
            "conversation.item.truncate", item_id=item.id, content_index=0, audio_end_ms=99_999
        )
        await user.until("conversation.item.truncated")
        await user.send("conversation.item.retrieve", item_id=item.id)
        found = await user.until("conversation.item.retrieved")
        assert found.item.content[0].text == item.content[0].text
        while user.types.count("response.done") < 2:
            await user.receive()
    again = next(each for each in reversed(user.events) if each.type == "response.done")
    assert again.response.status == "completed"


async def test_items_keep_their_order(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        for name in ("a", "b"):
            await user.add_text(name, id=name)
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "c"}]}
        create = "conversation.item.create"
        await user.send(create, item={**item, "id": "c"}, previous_item_id="a")
        assert (await user.until("conversation.item.done")).previous_item_id == "a"
        await user.send(create, item={**item, "id": "first"}, previous_item_id="root")
        assert (await user.until("conversation.item.done")).previous_item_id is None
        for fields, code in (
            ({"item": {**item, "id": "a"}}, "item_create_duplicate_item_id"),
            ({"item": item, "previous_item_id": "x"}, "item_create_invalid_previous_item_id"),
        ):
            await user.send(create, **fields)
            assert (await user.until("error")).error.code == code
        await user.send("conversation.item.delete", item_id="b")
        await user.until("conversation.item.deleted")
        last = await user.add_text("d")
        assert last.previous_item_id == "c"


async def test_an_answer_outside_of_the_conversation(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        await user.add_text("Hello.", id="a")
        asked = {
            "conversation": "none",
            "metadata": {"purpose": "title"},
            "output_modalities": ["text"],
            "instructions": "Write a title.",
            "input": [{"type": "item_reference", "id": "a"}],
        }
        await user.send("response.create", response=asked)
        answer = await user.answer()
        assert answer.response.conversation_id is None
        assert answer.response.metadata == {"purpose": "title"}
        assert "conversation.item.added" not in [each.type for each in answer.events]
        assert (await user.add_text("More.")).previous_item_id == "a"


async def test_a_session_is_recorded_unless_the_address_says_no(slow: Stack) -> None:
    sids = []
    for query in ({}, {"record": "0"}):
        async with realtime_user(
            slow.http_url, key=KEY, extra_query={"model": "m", **query}
        ) as user:
            sids.append(user.events[0].session.id)
            await user.update(**TEXT)
            await user.add_text("Hello.")
            await user.send("response.create", response={"max_output_tokens": 2})
            assert (await user.answer()).response.status == "incomplete"
    recordings = Recordings(slow.ws_url, api_key=ADMIN)
    kept = RecordingQuery(state=RecordingState.COMPLETE)

    async def found() -> bool:
        return sids[0] in [each.session_id for each in await listed(recordings, kept)]

    await until(found, within_s=60)
    sessions = await listed(recordings, RecordingQuery())
    assert sids[1] not in [each.session_id for each in sessions]
    [mine] = [each for each in sessions if each.session_id == sids[0]]
    assert mine.app_type == "turns"
    recording = await asyncio.to_thread(recordings.timeline, mine.id)
    assert isinstance(recording, TurnRecording)
    [turn] = recording.turns
    assert (turn.input.text, turn.output.text) == ("Hello.", "This is simulated. 2")


async def listed(recordings: Recordings, query: RecordingQuery) -> list[RecordingInfo]:
    return (await asyncio.to_thread(recordings.list, query)).sessions


async def test_updates_merge_deeply_and_null_switches_off(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        await user.update(
            audio={
                "input": {"transcription": {"model": "whisper"}, "format": {"type": "audio/pcmu"}}
            }
        )
        shown = await user.update(audio={"input": {"turn_detection": {"threshold": 0.7}}})
        audio_in = shown.session.audio.input
        assert (audio_in.format.type, audio_in.transcription.model) == ("audio/pcmu", "whisper")
        assert (audio_in.turn_detection.type, audio_in.turn_detection.threshold) == (
            "server_vad",
            0.7,
        )
        assert audio_in.turn_detection.silence_duration_ms == 500
        shown = await user.update(audio={"input": {"turn_detection": None}})
        assert shown.session.audio.input.turn_detection is None
        assert shown.session.audio.input.transcription.model == "whisper"


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a beta field": ({"voice": "alloy"}, "beta_api_shape_disabled", "session.voice"),
    "an unknown field": ({"colour": 1}, "unknown_parameter", "session.colour"),
    "no type": ({"type": None}, "invalid_value", "session.type"),
    "a rate": (
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
        "invalid_value",
        "session.audio.input.format.rate",
    ),
    "speed": ({"audio": {"output": {"speed": 1.5}}}, "invalid_value", "session.audio.output.speed"),
    "a prompt": ({"prompt": {"id": "p"}}, "invalid_value", "session.prompt"),
    "MCP": (
        {"tools": [{"type": "mcp", "server_label": "x"}]},
        "invalid_value",
        "session.tools.0.type",
    ),
    "an unknown voice": (
        {"audio": {"output": {"voice": "bob"}}},
        "invalid_value",
        "session.audio.output.voice",
    ),
}


async def test_what_is_not_possible_is_refused_by_name(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        for name, (fields, code, param) in REFUSED.items():
            session = {"type": "realtime", **fields}
            await user.send("session.update", session=session, event_id=name)
            error = (await user.until("error")).error
            assert (error.code, error.param, error.event_id) == (code, param, name), error
        await user.update(tools=[], tool_choice="auto", tracing="auto", max_output_tokens="inf")


async def test_the_beta_api_is_refused(slow: Stack) -> None:
    url = f"{slow.ws_url}/v1/realtime?model=m"
    headers = {"Authorization": f"Bearer {KEY}", "OpenAI-Beta": "realtime=v1"}
    async with websockets.connect(url, additional_headers=headers) as socket:
        assert "beta_api_shape_disabled" in str(await socket.recv())
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 4000


async def test_keys(slow: Stack) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with realtime_user(slow.http_url, key="a-wrong-key-of-16"):
            pass
    assert refused.value.response.status_code == 401
    body = json.loads(refused.value.response.body or b"")
    assert body["error"]["code"] == "invalid_api_key"
    offers = [websockets.Subprotocol("realtime"), f"openai-insecure-api-key.{KEY}"]
    async with websockets.connect(f"{slow.ws_url}/v1/realtime", subprotocols=offers) as socket:  # type: ignore[arg-type]
        assert socket.subprotocol == "realtime"
        assert "session.created" in str(await socket.recv())
    for path in ("/openai/v1", "", "/openai"):
        async with realtime_user(slow.http_url, key=KEY, path=path):
            pass


async def test_a_secret_opens_a_session_with_its_settings(slow: Stack) -> None:
    session: Any = {"type": "realtime", "instructions": "Be brief.", "output_modalities": ["text"]}
    with OpenAI(base_url=f"{slow.http_url}/v1", api_key=KEY, max_retries=0) as client:
        issued = client.realtime.client_secrets.create(session=session)
        with pytest.raises(openai.BadRequestError) as refused:
            client.realtime.client_secrets.create(
                session={"type": "realtime", "prompt": {"id": "p"}}
            )
    assert refused.value.param == "session.prompt"
    assert issued.value.startswith("ek_")
    assert issued.session.id
    async with realtime_user(slow.http_url, key=issued.value, model="m") as user:
        assert user.events[0].session.instructions == "Be brief."
    with (
        OpenAI(base_url=f"{slow.http_url}/v1", api_key=issued.value, max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    url = f"{slow.ws_url}/v1/realtime?mode=audio"
    with pytest.raises(websockets.InvalidStatus):
        await websockets.connect(
            url, additional_headers={"Authorization": f"Bearer {issued.value}"}
        )


async def test_a_client_waits_in_the_queue_without_an_error(slow: Stack) -> None:
    async with (
        realtime_user(slow.http_url, key=KEY) as one,
        realtime_user(slow.http_url, key=KEY) as two,
    ):
        for user in (one, two):
            await user.update(**TEXT)
            await user.send("response.create")
            await user.until("response.output_text.delta")
        async with realtime_user(slow.http_url, key=KEY) as third:
            await third.update(**TEXT)
            await third.add_text("Hello.")
            await third.send("response.create", response={"metadata": {"a": "b"}})
            created = await third.until("response.created")
            assert created.response.metadata == {"a": "b"}
            await third.send("response.cancel")
            assert (await third.until("response.done")).response.status == "cancelled"
            await third.send("response.create")
            await third.until("response.created")
            for user in (one, two):  # with unread events, closing takes the SDK ten seconds
                await user.until("response.done")
            await one.connection.close()
            answer = await third.answer()
            assert answer.response.status == "completed"
            assert "error" not in third.types


@pytest.mark.speech
async def test_a_spoken_question(local_stack: Stack) -> None:
    first, second = say(NAME), say(ITALY)  # a loop that waits for them would miss the pings
    async with realtime_user(local_stack.http_url) as user:
        await user.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
        await user.say(first)
        started = await user.until("input_audio_buffer.speech_started")
        stopped = await user.until("input_audio_buffer.speech_stopped")
        assert 0 <= started.audio_start_ms < stopped.audio_end_ms
        answer = await user.answer()
        [transcribed] = [e for e in answer.events if e.type.endswith("transcription.completed")]
        assert started.item_id == stopped.item_id == transcribed.item_id
        assert "name" in words(transcribed.transcript)
        await user.say(second)
        transcribed = await user.until("conversation.item.input_audio_transcription.completed")
        assert "italy" in words(transcribed.transcript)
        assert (await user.answer()).text
    assert await asyncio.to_thread(share_voiced, answer.text, answer.samples) >= 0.7


def shows(picture: bytes, **fields: Any) -> dict[str, Any]:
    """An item with a picture."""
    url = f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"
    content = [
        {"type": "input_text", "text": "What do you see?"},
        {"type": "input_image", "image_url": url},
    ]
    return {"type": "message", "role": "user", "content": content, **fields}


def damaged_png() -> bytes:
    """With its header and its end."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "PNG")
    data = file.getvalue()
    return data[:50] + bytes(20) + data[70:]


@pytest.mark.speech
async def test_pictures_are_seen(local_stack: Stack) -> None:
    cat = photograph("cat")
    async with realtime_user(local_stack.http_url) as user:
        await user.update(**TEXT)
        for picture, word in ((cat, "cat"), (sign("Room 204"), "204")):
            await user.send("conversation.item.create", item=shows(picture))
            added = await user.until("conversation.item.added")
            assert [part.type for part in added.item.content] == ["input_text", "input_image"]
            await user.send("response.create")
            answer = await user.answer()
            assert word in answer.text, answer.text
        item = {"conversation": "none", "input": [shows(cat)]}
        await user.send("response.create", response=item)
        assert "cat" in (await user.answer()).text
        await user.send("conversation.item.create", item=shows(damaged_png(), id="bad"))
        await user.send("response.create")
        failed = (await user.answer()).response
        assert failed.status == "failed"
        error = failed.status_details.error
        assert (error.type, error.code) == ("invalid_request_error", "invalid_value")
        assert "item 'bad'.content.1: " in error.message
        ask: Any = [{"type": "item_reference", "id": added.item.id}, shows(damaged_png())]
        await user.send("conversation.item.delete", item_id="bad")
        await user.send("response.create", response={"conversation": "none", "input": ask})
        error = (await user.answer()).response.status_details.error
        assert "response.input.1.content.1: " in error.message
        await user.send("response.create")
        assert (await user.answer()).response.status == "completed"


@pytest.mark.extended
@pytest.mark.speech
async def test_speech_interrupts_an_answer(slow: Stack) -> None:
    question = say(GERMANY)
    async with realtime_user(slow.http_url, key=KEY) as user:
        await user.add_text("Hello.")
        await user.send("response.create")
        await user.until("response.output_audio.delta")
        await user.say(question)
        await user.until("input_audio_buffer.speech_started")
        done = (await user.until("response.done")).response
        assert (done.status, done.status_details.reason) == ("cancelled", "turn_detected")
        cut = {"item_id": done.output[0].id, "content_index": 0, "audio_end_ms": 200}
        await user.send("conversation.item.truncate", **cut)
        await user.until("conversation.item.truncated")
        answer = await user.answer()
    assert answer.response.status == "completed"
    assert "error" not in user.types


@pytest.mark.extended
@pytest.mark.speech
async def test_push_to_talk_in_g711(local_stack: Stack) -> None:
    law = AudioFormat.PCMU
    speech = soxr.resample(say(NAME), INPUT_RATE, OUTPUT_RATE)
    async with realtime_user(local_stack.http_url) as user:
        sound = {"format": {"type": "audio/pcmu"}}
        audio_in: Any = {**sound, "turn_detection": None, "transcription": {"model": "any"}}
        await user.update(audio={"input": audio_in, "output": sound})
        await user.send("input_audio_buffer.commit", event_id="empty")
        refused = (await user.until("error")).error
        assert (refused.code, refused.event_id) == ("input_audio_buffer_commit_empty", "empty")
        await user.append(FormatEncoder(law).encode(speech), 160)
        await user.send("input_audio_buffer.commit")
        await user.until("input_audio_buffer.committed")
        await user.send("response.create")
        answer = await user.answer()
    samples = FormatDecoder(law, OUTPUT_RATE).decode(answer.sound)
    assert await asyncio.to_thread(share_voiced, answer.text, samples) >= 0.7
    [transcript] = [e.transcript for e in answer.events if "transcription.completed" in e.type]
    assert "name" in words(transcript)
    assert "input_audio_buffer.speech_started" not in user.types


@pytest.mark.extended
@pytest.mark.speech
async def test_a_transcription_session(local_stack: Stack) -> None:
    speech = say(ITALY)
    async with realtime_user(local_stack.http_url, extra_query={"intent": "transcription"}) as user:
        assert user.events[0].session.type == "transcription"
        await user.say(speech)
        transcribed = await user.until("conversation.item.input_audio_transcription.completed")
        assert "italy" in words(transcribed.transcript)
        await user.send("response.create")
        assert (await user.until("error")).error.param == "type"
    assert not [kind for kind in user.types if kind.startswith("response.")]


@pytest.mark.speech
async def test_a_function_is_called(tmp_path: Path) -> None:
    """By a language model behind the engine `local`, which answers as OpenAI's servers do."""
    function = {"name": "time", "arguments": '{"zone": "UTC"}'}
    call = delta(tool_calls=[{"index": 0, "id": "x", "function": function}])

    def answer_of(request: dict[str, Any]) -> LlmAnswer:
        is_asked = request["messages"][-1]["role"] == "user"
        return LlmAnswer([call, delta("tool_calls")] if is_asked else says("It is noon."))

    with scripted_server() as model, new_stack(tmp_path) as running:
        model.script = answer_of
        running.edge()
        running.worker("local", slots=1, llm_url=model.url, llm_model=MODEL)
        async with realtime_user(running.http_url) as user:
            await user.update(tools=[TIME])
            await user.add_text("What time is it?")
            await user.send("response.create")
            answer = await user.answer()
            [item] = answer.response.output
            assert (item.type, item.name, item.arguments) == (
                "function_call",
                "time",
                '{"zone": "UTC"}',
            )
            assert len(item.call_id) <= 32
            result = {"type": "function_call_output", "call_id": item.call_id, "output": "12:00"}
            await user.send("conversation.item.create", item=result)
            added = await user.until("conversation.item.added")
            assert added.previous_item_id == item.id
            await user.send("response.create")
            answer = await user.answer()
        assert "noon" in answer.text
        assert await asyncio.to_thread(share_voiced, "It is noon.", answer.samples) >= 0.7
        roles = [message["role"] for message in model.requests[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool"]


async def test_a_lost_worker_loses_no_item(slow: Stack) -> None:
    async with realtime_user(slow.http_url, key=KEY) as user:
        await user.update(**TEXT)
        await user.add_text("Hello.")
        await user.send("response.create")
        await user.until("response.output_text.delta")
        worker = slow.services[-1]
        worker.kill()
        slow.worker(engine_options=SLOW, slots=2)
        done = (await user.until("response.done")).response
        assert done.status == "completed"
        assert done.output[0].content[0].text == "This is simulated." + "".join(
            f" {n}" for n in range(2, 21)
        )
