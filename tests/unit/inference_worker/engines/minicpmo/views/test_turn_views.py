"""Half-duplex conversations and chats as worker threads use them."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import MAX_FEED_TOKENS
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_PICTURES,
    EngineStep,
    Feed,
    ShiftCache,
)
from antiphon.inference_worker.engines.minicpmo.views.answering import MiniCPMOAnsweringView
from antiphon.inference_worker.engines.minicpmo.views.half_duplex import MiniCPMOHalfDuplexView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    PastTurn,
    UnsupportedContent,
)
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
    Part,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.unit_result import TokenUsage
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.tone_vocoder import SAMPLES_PER_CODE, Tone
from support.tools import TEMPLATE, WEATHER, asks_weather, calls_weather, weather_result
from support.video_files import video

OPTIONS = EngineOptions(slots=3, context_tokens=640, speech_tokens=256, device="cpu")
GENERATION = GenerationConfig(max_new_tokens=6, temperature=0.0)
TEXT_ONLY = HalfDuplexConfig(generation=GENERATION, tts=TtsConfig(enabled=False))
HELLO = ConversationMessage(Role.USER, (TextPart("hello the world"),))
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("You are a helpful assistant."),))


@pytest.fixture(scope="module")
def loaded() -> Iterator[MiniCPMOProcessor]:
    engine = MiniCPMOProcessor(CHECKPOINT, OPTIONS)
    engine.load(lambda _line: None)
    yield engine
    engine.close()


@pytest.fixture
def processor(
    loaded: MiniCPMOProcessor,
    releases_slots: None,
) -> Iterator[MiniCPMOProcessor]:
    """One engine for all tests, which may give it a vocoder. Each samples as if it were the first."""
    parts = loaded._parts
    loaded._seeds = itertools.count()
    yield loaded
    loaded._parts = parts


def utterance() -> np.ndarray:
    return golden_set.waves()["w_user"]


def sound(name: str) -> AudioPart:
    return AudioPart(golden_set.waves()[name].astype("<f4").tobytes())


def test_turns_of_a_conversation(processor: MiniCPMOProcessor) -> None:
    view = processor.set_half_duplex_mode()
    assert isinstance(view, MiniCPMOHalfDuplexView)
    with pytest.raises(EngineError, match="prepare must come first"):
        view.prefill(utterance())
    assert view.prepare(SYSTEM, TEXT_ONLY) == view.kv_cache_length
    assert view.take_usage() == TokenUsage(input_text=view.kv_cache_length)
    lengths, answers = [view.kv_cache_length], []
    for _ in range(2):
        view.prefill(utterance())
        answers.append("".join(delta.text for delta in view.generate()))
        lengths.append(view.kv_cache_length)
        assert len(view.memo()["tokens"]) == 6
        assert view._last is not None
        assert view._last.cut
    assert lengths == sorted(set(lengths))
    view.rollback()
    assert view.kv_cache_length == lengths[1]
    view.prefill(utterance())
    assert "".join(delta.text for delta in view.generate()) == answers[1]
    assert view.kv_cache_length == lengths[2]
    view.cleanup()
    view.cleanup()


def test_a_long_conversation_forgets_its_oldest_turns(processor: MiniCPMOProcessor) -> None:
    """Another worker forgets the same turns."""
    first, second = processor.set_half_duplex_mode(), processor.set_half_duplex_mode()
    system = first.prepare(SYSTEM, TEXT_ONLY)
    lengths, past = [], []
    for _ in range(10):
        first.prefill(utterance())
        text = "".join(delta.text for delta in first.generate())
        past.append(PastTurn(audio=utterance(), text=text, memo=first.memo()))
        lengths.append(first.kv_cache_length)
    assert lengths != sorted(lengths)
    assert min(lengths[5:]) > system + OPTIONS.context_tokens // 4
    assert max(lengths) <= OPTIONS.context_tokens
    second.prepare(SYSTEM, TEXT_ONLY)
    second.replay(past)
    assert second.kv_cache_length == first.kv_cache_length
    answers = []
    for view in (first, second):
        view.prefill(utterance())
        answers.append("".join(delta.text for delta in view.generate()))
    assert answers[0] == answers[1]
    for view in (first, second):
        view.cleanup()


def test_another_worker_forgets_the_same_spoken_turns() -> None:
    """Also after a greeting, and after an answer that the user stopped, which count differently."""
    processor = MiniCPMOProcessor(CHECKPOINT, OPTIONS.model_copy(update={"speech_tokens": 64}))
    processor.load(lambda _line: None)
    assert processor._parts is not None
    processor._parts = replace(processor._parts, vocoder=Tone())
    config = HalfDuplexConfig(
        generation=GenerationConfig(max_new_tokens=8, temperature=0.0), greeting="hello"
    )
    voice, long = golden_set.waves()["w_ref"], np.tile(utterance(), 3)
    first, second = processor.set_half_duplex_mode(), processor.set_half_duplex_mode()
    assert isinstance(first, MiniCPMOHalfDuplexView)
    first.prepare(SYSTEM, config, ref_audio=voice)
    text = "".join(delta.text for delta in first.greet(""))
    past, lengths = [PastTurn(audio=None, text=text, memo=first.memo())], []
    kept = first.kv_cache_length
    for turn in range(7):
        first.prefill(long)
        if turn == 5:
            first.set_break()
        text = "".join(delta.text for delta in first.generate())
        memo = first.memo()
        assert memo["stopped"] == (turn == 5)
        past.append(PastTurn(audio=long, text=text, memo=memo))
        lengths.append(first.kv_cache_length)
    assert lengths != sorted(lengths)
    assert first._session.window.protected == kept
    second.prepare(SYSTEM, config, ref_audio=voice)
    second.replay(past)
    assert second.kv_cache_length == first.kv_cache_length
    for view in (first, second):
        view.prefill(long)
    assert second.kv_cache_length == first.kv_cache_length
    answers = ["".join(delta.text for delta in view.generate()) for view in (first, second)]
    assert answers[0] == answers[1]
    processor.close()


def test_a_break_keeps_the_spoken_text(processor: MiniCPMOProcessor) -> None:
    long = TEXT_ONLY.model_copy(update={"generation": GenerationConfig(max_new_tokens=400)})
    view = processor.set_half_duplex_mode()
    assert isinstance(view, MiniCPMOHalfDuplexView)
    view.prepare(SYSTEM, long)
    view.prefill(utterance())
    pieces = view.generate()
    next(pieces)
    view.set_break()
    rest = list(pieces)
    assert len(rest) < 399
    assert view._last is not None
    assert view._last.cut
    assert len(view.memo()["tokens"]) < 400


def test_closing_the_iterator_ends_the_answer(processor: MiniCPMOProcessor) -> None:
    long = TEXT_ONLY.model_copy(update={"generation": GenerationConfig(max_new_tokens=400)})
    view = processor.set_half_duplex_mode()
    view.prepare(SYSTEM, long)
    before = view.kv_cache_length
    view.prefill(utterance())
    pieces = view.generate()
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    view.rollback()
    assert view.kv_cache_length == before
    view.prefill(utterance())
    assert list(view.generate())


def test_a_chat_of_text_audio_and_images(processor: MiniCPMOProcessor) -> None:
    view = processor.set_chat_mode()
    with pytest.raises(EngineError, match="prefill must come before"):
        next(view.generate())
    picture = ImagePart(golden_set.image_bytes("b"))
    question = ConversationMessage(Role.USER, (picture, TextPart("what is this?"), sound("w_user")))
    options = ChatOptions(generation=GENERATION, max_slice_nums=1)
    reported: list[float] = []
    length = view.prefill([SYSTEM, question], options, on_progress=reported.append)
    assert length > 64 + 30
    assert reported == pytest.approx(
        [1 / 4, 1 / 2, 4 / 6, 5 / 6, 1.0, 1.0]
    )  # two messages; audio, images, and the feed in two portions
    read = view.take_usage()
    assert read.input_vision == 64
    assert read.input_audio >= 30
    assert read.input_text + read.input_audio + read.input_vision == length
    assert sum(delta.n_tokens for delta in view.generate()) == 6
    assert view.take_usage() == TokenUsage(output_text=6)
    view.cleanup()


def test_tools_need_a_template_with_tools_and_no_voice(processor: MiniCPMOProcessor) -> None:
    assert not processor.info.calls_tools  # like the template of the tiny checkpoint
    view = processor.set_chat_mode()
    speaking = ChatOptions(tools=[WEATHER], tts=TtsConfig(enabled=True))
    with pytest.raises(UnsupportedContent, match="set it to false") as refused:
        view.prefill([asks_weather("Rome")], speaking)
    assert refused.value.field == "tts.enabled"


def test_a_chat_with_tools(processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt goes through the template; what the model writes is read for calls."""
    assert processor._parts is not None
    tokenizer = Tokenizer(CHECKPOINT)
    monkeypatch.setattr(tokenizer._inner, "chat_template", TEMPLATE)
    processor._parts = replace(processor._parts, tokenizer=tokenizer)
    history = [asks_weather("Rome"), calls_weather("Rome"), weather_result("Rome")]
    options = ChatOptions(generation=GENERATION, tools=[WEATHER])
    assert processor.info.calls_tools
    view = processor.set_chat_mode()
    assert view.prefill(history, options) == view.take_usage().input_text
    view.cleanup()
    view = processor.set_chat_mode()
    view.prefill(history, options)
    assert sum(delta.n_tokens for delta in view.generate()) == 6
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'
    written = iter([f"Look: {call[:20]}", call[20:]])
    answer = (Delta(text=text, n_tokens=1) for text in written)
    monkeypatch.setattr(MiniCPMOAnsweringView, "resume", lambda _view, _said: answer)
    deltas = list(view.generate())
    assert "".join(delta.text for delta in deltas) == "Look:"
    assert [call.name for delta in deltas for call in delta.tool_calls] == ["get_weather"]
    view.cleanup()


def test_a_chat_about_a_video(processor: MiniCPMOProcessor) -> None:
    film = VideoPart(video(seconds=2, size=(640, 480), sound=utterance()[:32000]))
    question = ConversationMessage(Role.USER, (film, TextPart("what is this?")))
    plain = ConversationMessage(Role.USER, (TextPart("what is this?"),))
    lengths = []
    for message, slices in ((plain, None), (question, None), (question, 4)):
        view = processor.set_chat_mode()
        options = ChatOptions(generation=GENERATION, omni_mode=True, max_slice_nums=slices)
        lengths.append(view.prefill([message], options))
        view.cleanup()
    label = len("<image_id>0</image_id>") - len("0")  # at most a token for each letter
    assert 2 * (66 + 12) < lengths[1] - lengths[0] <= 2 * (66 + 12 + 1 + label)
    assert lengths[2] == lengths[1] + 2 * 2 * 66  # each image in two slices


def test_a_long_prefill_reports_each_step(processor: MiniCPMOProcessor) -> None:
    view = processor.set_chat_mode()
    pictures = tuple(ImagePart(golden_set.image_bytes("a")) for _ in range(8))
    reported: list[float] = []
    options = ChatOptions(generation=GENERATION, max_slice_nums=1)
    view.prefill([ConversationMessage(Role.USER, pictures)], options, on_progress=reported.append)
    portions = -(-view._session.length // MAX_FEED_TOKENS)
    assert reported[0] == 0.5  # read; then encoded and fed, both in portions
    assert len(reported) == 1 + len(pictures) // MAX_PICTURES + portions
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    view.cleanup()


@pytest.mark.parametrize(
    ("part", "words"), [(VideoPart(b"nonsense"), "neither MP4"), (ImagePart(b"no"), "readable")]
)
def test_unreadable_content_is_refused_by_name(
    processor: MiniCPMOProcessor, part: Part, words: str
) -> None:
    view = processor.set_chat_mode()
    history = [SYSTEM, ConversationMessage(Role.USER, (TextPart("what is this?"), part))]
    with pytest.raises(UnsupportedContent, match=words) as refused:
        view.prefill(history, ChatOptions())
    assert refused.value.field == "messages.1.content.1"


def test_conversations_of_all_kinds_share_the_engine(processor: MiniCPMOProcessor) -> None:
    alone = processor.set_chat_mode()
    options = ChatOptions(generation=GENERATION)
    alone.prefill([HELLO], options)
    want = "".join(delta.text for delta in alone.generate())
    alone.cleanup()
    chats = [processor.set_chat_mode() for _ in range(3)]
    together = threading.Barrier(3)
    got: list[str] = []

    def ask(n: int) -> None:
        history = [HELLO] if n == 0 else [SYSTEM, HELLO]
        chats[n].prefill(history, options)
        together.wait()
        text = "".join(delta.text for delta in chats[n].generate())
        if n == 0:
            got.append(text)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want]


def test_answers_are_spoken_with_a_vocoder(processor: MiniCPMOProcessor) -> None:
    spoken = HalfDuplexConfig(generation=GenerationConfig(max_new_tokens=25, temperature=0.0))
    view = processor.set_half_duplex_mode()
    with pytest.raises(EngineError, match="no vocoder"):
        view.prepare(SYSTEM, spoken)
    assert processor._parts is not None
    processor._parts = replace(processor._parts, vocoder=Tone())
    talker = processor.set_half_duplex_mode()
    talker.prepare(SYSTEM, spoken, ref_audio=golden_set.waves()["w_ref"])
    talker.prefill(utterance())
    pieces = list(talker.generate())
    samples = sum(len(piece.audio) for piece in pieces)
    assert talker.take_usage().output_audio == samples // SAMPLES_PER_CODE
    assert samples >= 25 * SAMPLES_PER_CODE
    assert samples % SAMPLES_PER_CODE == 0
    text = "".join(piece.text for piece in pieces)
    first_sound = next(n for n, piece in enumerate(pieces) if len(piece.audio))
    assert sum(piece.n_tokens for piece in pieces[:first_sound]) <= 10
    assert text


def test_an_answer_that_is_not_streamed_arrives_at_once(processor: MiniCPMOProcessor) -> None:
    assert processor._parts is not None
    processor._parts = replace(processor._parts, vocoder=Tone())
    options = ChatOptions(
        streaming=False,
        generation=GenerationConfig(max_new_tokens=8, temperature=0.0),
        tts=TtsConfig(enabled=True),
    )
    view = processor.set_chat_mode()
    view.prefill([SYSTEM, HELLO], options, ref_audio=golden_set.waves()["w_ref"])
    pieces = list(view.generate())
    [written] = [piece for piece in pieces if piece.n_tokens]
    assert written.n_tokens == 8
    before = pieces[: pieces.index(written)]
    assert len(before) == 8  # one for each step, so that the reader can stop the search
    assert not any(piece.text or len(piece.audio) for piece in before)
    samples = sum(len(piece.audio) for piece in pieces)
    assert samples >= 50 * SAMPLES_PER_CODE
    usage = view.take_usage()
    assert (usage.output_text, usage.output_audio) == (8, samples // SAMPLES_PER_CODE)
    view.cleanup()


def test_the_search_for_an_answer_stops_when_its_reader_leaves(
    processor: MiniCPMOProcessor,
) -> None:
    view = processor.set_chat_mode()
    generation = GenerationConfig(max_new_tokens=500, temperature=0.0)
    view.prefill([SYSTEM, HELLO], ChatOptions(streaming=False, generation=generation))
    answer = view.resume("")
    assert next(answer).text == ""
    answer.close()
    assert view._session._pending is None
    assert view._session.length < 500
    view.cleanup()


def test_which_answers_of_a_chat_open_as_speech(processor: MiniCPMOProcessor) -> None:
    """By the length of the prompt, which `<|tts_bos|>` makes longer by a token."""

    def length(*parts: Part, **options: Any) -> int:
        view = processor.set_chat_mode()
        message = ConversationMessage(Role.USER, parts)
        read = view.prefill([message], ChatOptions(generation=GENERATION, **options))
        view.cleanup()
        return read

    text, audio = TextPart("hello the world"), sound("w_user")
    plain = length(text, streaming=False)
    assert length(text) == plain + 1
    assert length(text, streaming=False, use_tts_template=True) == plain + 1
    assert length(text, tools=[WEATHER]) == plain
    assert length(audio) == length(audio, streaming=False)
    thinking = length(text, streaming=False, enable_thinking=True)
    assert length(text, enable_thinking=True) == thinking


def test_an_answer_that_fills_the_context_is_cut(processor: MiniCPMOProcessor) -> None:
    """One that would have hardly any room fails before its first token."""
    options = ChatOptions(generation=GenerationConfig(max_new_tokens=4000, temperature=0.0))
    view = processor.set_chat_mode()
    read = view.prefill([HELLO], options)
    written = sum(delta.n_tokens for delta in view.generate())
    assert read + written == view._session.length == OPTIONS.context_tokens
    assert view._last is not None
    assert view._last.cut
    view.cleanup()
    view = processor.set_chat_mode()
    words = TextPart("hello the world " * ((OPTIONS.context_tokens - read - 32) // 9))
    view.prefill([ConversationMessage(Role.USER, (words,))], options)
    with pytest.raises(ContextFull, match="has room for"):
        next(view.generate())
    view.cleanup()


def test_a_failed_answer_raises_in_its_reader(
    processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = processor.set_chat_mode()
    view.prefill([HELLO], ChatOptions(generation=GENERATION))
    answer = view.generate()
    next(answer)
    fail_next(view, monkeypatch, Feed)
    with pytest.raises(EngineError, match="no memory left"):
        list(answer)
    view.cleanup()


def fail_next(
    view: MiniCPMOAnsweringView, monkeypatch: pytest.MonkeyPatch, kind: type[EngineStep]
) -> None:
    """The next batch of this kind."""
    runner = view._parts.engine._runner
    run, failed = runner.run, threading.Event()

    def fails(steps: Any) -> Any:
        if isinstance(steps[0], kind) and not failed.is_set():
            failed.set()
            raise RuntimeError("no memory left")
        return run(steps)

    monkeypatch.setattr(runner, "run", fails)


def test_a_turn_that_fails_leaves_the_one_before_it(
    processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = processor.set_half_duplex_mode()
    view.prepare(SYSTEM, TEXT_ONLY)
    fail_next(view, monkeypatch, ShiftCache)
    lengths = list[int]()

    def talk() -> None:
        for _ in range(20):
            view.prefill(utterance())
            list(view.generate())
            lengths.append(view.kv_cache_length)

    with pytest.raises(EngineError, match="no memory left"):
        talk()
    view.rollback()
    assert view.kv_cache_length == lengths[-1]
    view.cleanup()


def test_an_answer_begins_a_turn_of_the_voice(processor: MiniCPMOProcessor) -> None:
    """Also after one that was interrupted, whose end the vocoder has not seen."""
    assert processor._parts is not None
    vocoder = Tone()
    processor._parts = replace(processor._parts, vocoder=vocoder)
    view = processor.set_half_duplex_mode()
    generation = GenerationConfig(max_new_tokens=25, temperature=0.0)
    view.prepare(SYSTEM, HalfDuplexConfig(generation=generation), golden_set.waves()["w_ref"])
    view.prefill(utterance())
    answer = view.resume("")
    assert next(answer).n_tokens
    answer.close()
    turns = vocoder.turns
    view.prefill(utterance())
    next(view.generate())
    assert vocoder.turns == turns + 1
    view.cleanup()
