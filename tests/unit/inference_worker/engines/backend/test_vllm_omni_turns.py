"""Half-duplex turns and chats over the chat completions of vLLM-Omni."""

import base64
import io

import pytest
import soundfile

from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import (
    EngineBusy,
    EngineError,
    EngineLost,
    PastTurn,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from antiphon.shared_schemas.content import ConversationMessage, ImagePart, TextPart, VideoPart
from antiphon.shared_schemas.unit_result import TokenUsage
from support.edge_harness import picture as picture_file
from support.vllm_omni_server import MODEL, TONE, Message, ScriptedVllmOmni, chunk, wav

from .conftest import Connect
from .test_backend_turns import AUDIO, JPEG, SPEECH, SYSTEM, ask


def roles(request: Message) -> list[tuple[str, list[str]]]:
    messages = request["messages"]
    return [(m["role"], [part["type"] for part in m["content"]]) for m in messages]


def talk(view: HalfDuplexView) -> str:
    view.prefill(SPEECH)
    return "".join(delta.text for delta in view.generate())


def test_every_turn_is_a_request_with_the_conversation(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    view = connect(omni).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig(), SPEECH)
    view.replay([PastTurn(audio=None, text="Earlier.")])
    assert [talk(view), talk(view)] == ["Well, yes."] * 2
    assert roles(omni.requests[-1]) == [
        ("system", ["text"]),
        ("assistant", ["text"]),
        ("user", ["input_audio"]),
        ("assistant", ["text"]),
        ("user", ["input_audio"]),
    ]
    assert omni.requests[-1]["modalities"] == ["text", "audio"]
    assert omni.requests[-1]["ref_audio"].startswith("data:audio/wav;base64,")
    assert omni.active == 0  # a request needs no session
    assert view.kv_cache_length == 11
    view.rollback()
    talk(view)
    assert len(omni.requests[-1]["messages"]) == 5


def test_what_a_chat_sends(omni: ScriptedVllmOmni, connect: Connect) -> None:
    view = connect(omni).set_chat_mode()
    png = ImagePart(picture_file("PNG"))
    options = ChatOptions(
        generation=GenerationConfig(max_new_tokens=7, temperature=0.3, top_p=0.5, top_k=0),
        enable_thinking=True,
    )
    view.prefill([SYSTEM, ask(TextPart("Hi"), JPEG, png, AUDIO, VideoPart(b"film"))], options)
    assert "".join(delta.text for delta in view.generate()) == "Well, yes."
    [request] = omni.requests
    assert {name: request[name] for name in ("max_tokens", "temperature", "top_p", "top_k")} == {
        "max_tokens": 7,
        "temperature": 0.3,
        "top_p": 0.5,
        "top_k": -1,
    }
    assert (request["model"], request["modalities"]) == (MODEL, ["text"])
    assert request["chat_template_kwargs"] == {"enable_thinking": True}
    [_, picture, drawing, sound, film] = request["messages"][1]["content"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert drawing["image_url"]["url"].startswith("data:image/png;base64,")
    data = base64.b64decode(sound["input_audio"]["data"])
    samples, rate = soundfile.read(io.BytesIO(data))
    assert (len(samples), rate) == (len(SPEECH), INPUT_RATE)
    assert film["video_url"]["url"] == "data:video/mp4;base64,ZmlsbQ=="


def test_text_sound_and_tokens_of_an_answer(omni: ScriptedVllmOmni, connect: Connect) -> None:
    view = connect(omni).set_chat_mode()
    view.prefill([ask(TextPart("Hi"))], ChatOptions(tts=TtsConfig(enabled=True)))
    assert view.take_usage() is None
    deltas = [(delta.text, len(delta.audio)) for delta in view.generate()]
    assert deltas == [("Well, ", 0), ("yes.", 0), ("", len(TONE))]
    assert view.take_usage() == TokenUsage(input_text=9, output_text=2)
    assert view.take_usage() is None


def test_slices_are_refused(omni: ScriptedVllmOmni, connect: Connect) -> None:
    view = connect(omni).set_chat_mode()
    with pytest.raises(UnsupportedContent) as refusal:
        view.prefill([ask(TextPart("Hi"))], ChatOptions(max_slice_nums=4))
    assert refusal.value.field == "image.max_slice_nums"


def test_a_break_ends_the_request(omni: ScriptedVllmOmni, connect: Connect) -> None:
    omni.chat = lambda _: [chunk("One "), {**chunk("two"), "after_s": 1e6}]
    view = connect(omni).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig())
    view.prefill(SPEECH)
    answer = view.generate()
    assert next(answer).text == "One "
    view.set_break()
    assert list(answer) == []
    omni.chat = lambda _: [chunk("Next."), "[DONE]"]
    assert talk(view) == "Next."
    assert omni.requests[-1]["messages"][2]["content"] == [{"type": "text", "text": "One "}]


def answer(omni: ScriptedVllmOmni, connect: Connect, question: ConversationMessage) -> str:
    view = connect(omni).set_chat_mode()
    view.prefill([question], ChatOptions())
    try:
        return "".join(delta.text for delta in view.generate())
    finally:
        view.cleanup()


QUESTION = ask(TextPart("Hi"))


def test_an_answer_that_is_cut_off_ends_the_session(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    """The question may be the reason, so it is not asked again."""
    omni.chat = lambda _: [chunk("One "), "cut"]
    with pytest.raises(EngineLost, match=r"is lost|has cut off its answer") as lost:
        answer(omni, connect, QUESTION)
    assert not isinstance(lost.value, EngineBusy)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, EngineError), (500, EngineError), (503, EngineBusy), (429, EngineBusy)],
)
def test_refusals_of_a_request(
    omni: ScriptedVllmOmni, connect: Connect, status: int, kind: type[Exception]
) -> None:
    """A server that is overloaded gives the request back to the queue."""
    omni.chat_status = status
    with pytest.raises(kind, match=f"vLLM-Omni answered {status}: the engine is out of order"):
        answer(omni, connect, QUESTION)


def test_a_server_that_is_gone_gives_the_request_back(connect: Connect) -> None:
    server = ScriptedVllmOmni()
    with server.running():
        engine = connect(server)
    view = engine.set_chat_mode()
    view.prefill([QUESTION], ChatOptions())
    with pytest.raises(EngineBusy, match="does not answer"):
        list(view.generate())
    view.cleanup()
    assert engine.unusable_slots == 1


def test_unreadable_pieces_are_left_out(
    omni: ScriptedVllmOmni, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces: list[Message | str] = ["{", "[]", {"choices": None}, chunk("AAAA", "audio")]
    omni.chat = lambda _: [*pieces, chunk("Yes."), "[DONE]"]
    assert answer(omni, connect, QUESTION) == "Yes."
    assert capsys.readouterr().out.count("backend_message_unreadable") == 2


def test_an_error_in_a_stream_has_the_servers_words(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    omni.chat = lambda _: [{"error": {"message": "the prompt is too long"}}, "[DONE]"]
    with pytest.raises(EngineError, match="vLLM-Omni failed: the prompt is too long"):
        answer(omni, connect, QUESTION)


def test_sound_at_another_rate_is_named(omni: ScriptedVllmOmni, connect: Connect) -> None:
    file = io.BytesIO()
    soundfile.write(file, TONE, 44100, format="WAV", subtype="PCM_16")
    data = base64.b64encode(file.getvalue()).decode()
    omni.chat = lambda _: [chunk(data, "audio"), "[DONE]"]
    with pytest.raises(EngineError, match="sound at 44100 Hz, and not 24000 Hz"):
        answer(omni, connect, QUESTION)
    assert wav(TONE) != data
