"""Half-duplex turns and chats: what is sent to a server, and what it cannot do."""

import base64
import io
import weakref

import numpy as np
import pytest
from PIL import Image

from antiphon.inference_worker.engines.backend.half_duplex import TurnHistory
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import EngineLost, PastTurn, UnsupportedContent
from antiphon.shared_schemas.audio import INPUT_RATE, float_bytes
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.unit_result import TokenUsage
from support.backend_server import DIE, TONE, ScriptedBackend, counted, done, sound, text

from .conftest import Connect
from .test_backend_duplex import replies

SPEECH = np.full(INPUT_RATE // 4, 0.1, dtype=np.float32)
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("Be kind."),))
AUDIO = AudioPart(float_bytes(SPEECH))
JPEG = ImagePart(b"\xff\xd8picture")


def ask(*parts: TextPart | AudioPart | ImagePart | VideoPart) -> ConversationMessage:
    return ConversationMessage(Role.USER, parts)


def shape(server: ScriptedBackend) -> list[tuple[str, list[str]]]:
    """Role and kinds of content of each message of the newest request."""
    messages = server.sessions[-1].inputs[-1]["messages"]
    return [(m["role"], [part["type"] for part in m["content"]]) for m in messages]


def talk(view: HalfDuplexView, turns: int) -> None:
    view.prepare(SYSTEM, HalfDuplexConfig())
    for _ in range(turns):
        view.prefill(SPEECH)
        assert "".join(delta.text for delta in view.generate()) == "Well, yes."


def test_every_turn_is_a_session_with_the_conversation(
    demo: ScriptedBackend, connect: Connect
) -> None:
    view = connect(demo).set_half_duplex_mode()
    talk(view, 2)
    view.cleanup()
    assert shape(demo) == [
        ("system", ["text"]),
        ("user", ["audio"]),
        ("assistant", ["text"]),
        ("user", ["audio"]),
    ]
    assert [session.count for session in demo.sessions] == [0, 1, 1]
    assert demo.closed == [session.id for session in demo.sessions]
    assert demo.faults == []


def test_tokens_that_llama_counts_with_the_prompt_are_not_reported(
    llama: ScriptedBackend, demo: ScriptedBackend, connect: Connect
) -> None:
    for server, expected in ((llama, 0), (demo, 2)):
        view = connect(server).set_chat_mode()
        view.prefill([ask(TextPart("Hi"))], ChatOptions())
        assert sum(delta.n_tokens for delta in view.generate()) == expected


def test_llama_gets_the_newest_sound_only(llama: ScriptedBackend, connect: Connect) -> None:
    """It drops the history if its newest message has no text."""
    talk(connect(llama).set_half_duplex_mode(), 2)
    assert shape(llama) == [
        ("system", ["text"]),
        ("assistant", ["text"]),
        ("user", ["audio", "text"]),
    ]


def test_the_sound_of_old_turns_is_not_sent(demo: ScriptedBackend, connect: Connect) -> None:
    view = connect(demo).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig())
    view.replay([PastTurn(audio=SPEECH, text="Yes.") for _ in range(10)])
    view.prefill(SPEECH)
    assert list(view.generate())
    roles = [role for role, _ in shape(demo)]
    assert roles == ["system", *["assistant"] * 2, *["user", "assistant"] * 8, "user"]


def test_the_sound_of_old_turns_is_not_kept() -> None:
    history = TurnHistory(SYSTEM, 8192)
    utterances = [np.full(INPUT_RATE, 0.1, dtype=np.float32) for _ in range(20)]
    kept = [weakref.ref(utterance) for utterance in utterances]
    while utterances:
        history.add(utterances.pop(0))
        history.answered("Yes.")
    assert [utterance() is None for utterance in kept] == [True] * 11 + [False] * 9
    history.drop_newest()
    history.add(SPEECH)
    roles = [message.role for message in history.messages()]
    assert (roles.count(Role.USER), roles.count(Role.ASSISTANT)) == (9, 19)


def test_turns_beyond_the_context_are_not_sent(demo: ScriptedBackend, connect: Connect) -> None:
    """The newest turn is sent in any case."""
    replies(demo, [done("Many words. " * 5)])
    view = connect(demo, context_tokens=300).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig(generation=GenerationConfig(max_new_tokens=100)))
    for _ in range(20):
        view.prefill(SPEECH)
        assert list(view.generate())
    assert 2 <= [role for role, _ in shape(demo)].count("assistant") <= 8
    view.prefill(np.resize(SPEECH, 20 * INPUT_RATE))
    assert list(view.generate())
    assert shape(demo) == [("system", ["text"]), ("user", ["audio"])]


def test_pieces_are_passed_on_and_tokens_counted(demo: ScriptedBackend, connect: Connect) -> None:
    view = connect(demo).set_chat_mode()
    options = ChatOptions(
        generation=GenerationConfig(max_new_tokens=7, length_penalty=1.3),
        tts=TtsConfig(enabled=True),
        max_slice_nums=4,
        omni_mode=True,
        enable_thinking=True,
    )
    view.prefill([SYSTEM, ask(TextPart("Hi"), JPEG, AUDIO)], options, SPEECH)
    pieces = list(view.generate())
    assert [(piece.text, len(piece.audio)) for piece in pieces] == [
        ("Well, ", 0),
        ("", len(TONE)),
        ("yes.", 0),
        ("", 0),
    ]
    assert pieces[-1].n_tokens == 2
    [given] = demo.sessions[0].inputs
    assert given["generation"] == {"max_new_tokens": 7, "length_penalty": 1.3}
    voice = np.frombuffer(base64.b64decode(given["tts"]["ref_audio_data"]), dtype="<f4")
    assert np.array_equal(voice, SPEECH)
    assert given["image"] == {"max_slice_nums": 4}
    names = ("streaming", "omni_mode", "use_tts_template", "enable_thinking")
    assert [given[name] for name in names] == [True] * 4


def test_an_answer_in_one_piece(demo: ScriptedBackend, connect: Connect) -> None:
    whole = {**done("All of it."), "audio": sound()["audio"]}
    replies(demo, [whole])
    view = connect(demo).set_chat_mode()
    view.prefill([ask(TextPart("Hi"))], ChatOptions())
    [piece] = view.generate()
    assert (piece.text, len(piece.audio)) == ("All of it.", len(TONE))


def test_other_pictures_are_sent_as_jpeg(demo: ScriptedBackend, connect: Connect) -> None:
    file = io.BytesIO()
    Image.new("RGBA", (4, 4), "red").save(file, "PNG")
    view = connect(demo).set_chat_mode()
    view.prefill([ask(ImagePart(file.getvalue()))], ChatOptions())
    assert list(view.generate())
    [part] = demo.sessions[0].inputs[0]["messages"][0]["content"]
    assert base64.b64decode(part["data"]).startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    ("history", "field"),
    [
        ([ask(JPEG), ask(TextPart("and?"))], "messages.0.content.0"),
        ([ask(TextPart("Hi"), AUDIO), ask(TextPart("and?"))], "messages.0.content.1"),
        ([ask(JPEG, JPEG)], "messages.0.content.1"),
        ([ask(AUDIO, VideoPart(b"mp4"))], "messages.0.content.1"),
    ],
)
def test_llama_refuses_what_it_would_ignore(
    llama: ScriptedBackend, connect: Connect, history: list[ConversationMessage], field: str
) -> None:
    view = connect(llama).set_chat_mode()
    with pytest.raises(UnsupportedContent, match="llama-omni-server uses") as refusal:
        view.prefill(history, ChatOptions())
    assert refusal.value.field == field
    assert llama.sessions == []


def test_llama_cannot_think(llama: ScriptedBackend, connect: Connect) -> None:
    view = connect(llama).set_chat_mode()
    with pytest.raises(UnsupportedContent, match="cannot think") as refusal:
        view.prefill([ask(TextPart("Hi"))], ChatOptions(enable_thinking=True))
    assert refusal.value.field == "enable_thinking"


def test_llama_sees_no_picture_in_a_system_message(
    llama: ScriptedBackend, connect: Connect
) -> None:
    view = connect(llama).set_half_duplex_mode()
    system = ConversationMessage(Role.SYSTEM, (TextPart("Look."), JPEG))
    with pytest.raises(UnsupportedContent) as refusal:
        view.prepare(system, HalfDuplexConfig())
    assert refusal.value.field == "system_content.1"


def test_a_break_ends_the_request(demo: ScriptedBackend, connect: Connect) -> None:
    replies(demo, [text("One "), {**text("two"), "after_s": 1e6}])
    view = connect(demo).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig())
    view.prefill(SPEECH)
    answer = view.generate()
    assert next(answer).text == "One "
    view.set_break()
    assert list(answer) == []
    assert len(demo.closed) == 2
    replies(demo, [done("Next.")])
    view.prefill(SPEECH)
    assert [piece.text for piece in view.generate()] == ["Next."]
    assistant = demo.sessions[-1].inputs[0]["messages"][2]
    assert assistant["content"] == [{"type": "text", "text": "One "}]


def test_a_connection_that_is_lost_during_an_answer(
    demo: ScriptedBackend, connect: Connect
) -> None:
    replies(demo, [text("One "), DIE])
    view = connect(demo).set_chat_mode()
    view.prefill([ask(TextPart("Hi"))], ChatOptions())
    with pytest.raises(EngineLost, match="is lost"):
        list(view.generate())


def test_the_counts_of_the_server_are_passed_on(demo: ScriptedBackend, connect: Connect) -> None:
    """`usage` counts the session so far, and each request is a session."""
    view = connect(demo).set_chat_mode()
    read = counted(text("Yes."), input_text=9, input_image=64)
    total = counted(done("Yes."), input_text=9, input_image=64, output_text=2)["chunk_usage"]
    replies(demo, [read, {**done("Yes."), "usage": total}])
    for _ in range(2):
        view.prefill([ask(TextPart("Well?"))], ChatOptions())
        assert view.take_usage() is None
        assert "".join(delta.text for delta in view.generate()) == "Yes."
        assert view.take_usage() == TokenUsage(input_text=9, input_vision=64, output_text=2)
    view.cleanup()
