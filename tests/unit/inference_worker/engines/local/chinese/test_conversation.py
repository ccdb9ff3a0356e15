"""A spoken conversation in Chinese, with the weights of the extra `zh`."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import soxr

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.chinese.phonemes import symbols_of
from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.conversation import STILL_THERE
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.whisper import find_files
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.speech import joined
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import TextKind
from support.llm_server import MODEL, ScriptedServer, says, scripted_server
from support.synthetic_speech import audio_of, listen, run_units, silence, text_of, units_of

pytestmark = [pytest.mark.extended, pytest.mark.speech]

pypinyin = pytest.importorskip("pypinyin", reason="the extra zh is not installed")
pytest.importorskip("ctranslate2", reason="the extra zh is not installed")

ROME = "意大利的首都是罗马，那里有很多古老的建筑。"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        server.answers(says(*ROME))
        yield server


@pytest.fixture(scope="module")
def engine(server: ScriptedServer) -> Iterator[LocalProcessor]:
    options = {"slots": 1, "language": "zh", "llm_url": server.url, "llm_model": MODEL}
    engine = LocalProcessor(LocalOptions(**options))
    engine.load(lambda _: None)
    yield engine
    engine.close()


@pytest.fixture
def view(engine: LocalProcessor) -> Iterator[DuplexView]:
    view = engine.set_duplex_mode()
    view.prepare("", DuplexConfig(force_listen_count=0, time_zone="Asia/Shanghai"))
    yield view
    view.cleanup()


def said(engine: LocalProcessor, text: str, voice: str = "yunxi") -> Samples:
    """`text` in a Chinese voice at 16 kHz."""
    assert engine._models is not None
    splitter, speaker = ClauseSplitter("zh"), engine._models.voices.speaker(voice)
    clauses = [*splitter.feed(text), *splitter.flush()]
    parts = (part for clause in clauses for part in speaker.speak(clause, StageCosts()))
    sound = joined(parts).audio
    return np.asarray(soxr.resample(sound, OUTPUT_RATE, INPUT_RATE), np.float32)


def transcript_of(engine: LocalProcessor, sound: Samples) -> Transcript:
    assert engine._models is not None
    return engine._models.recogniser.transcribe(sound)


def syllables(text: str) -> list[str]:
    """Without tones: the recogniser writes other characters of the same sound."""
    return list(pypinyin.lazy_pinyin(re.sub(r"[\W_]", "", text)))


def share_recognised(text: str, transcript: str) -> float:
    rest, found = syllables(transcript), 0
    for syllable in syllables(text):
        if syllable in rest:
            rest.remove(syllable)
            found += 1
    return found / len(syllables(text))


def test_a_conversation_is_understood_and_answered(
    engine: LocalProcessor, view: DuplexView, server: ScriptedServer
) -> None:
    info = engine.info
    assert (info.hears, info.speaks) == (("zh",), ("zh",))
    assert {voice.id for voice in info.voices} == {
        "xiaoxiao",
        "xiaoyi",
        "yunxi",
        "yunyang",
        "espeak",
    }
    asked = len(server.requests)
    clock = ask(view, said(engine, "现在几点了？"))
    assert re.fullmatch(r"现在是\w\w\d{1,2}点\w+。", text_of(clock))
    capital = ask(view, said(engine, "意大利的首都是哪里？"))
    assert text_of(capital) == ROME
    answer = soxr.resample(audio_of(capital), OUTPUT_RATE, INPUT_RATE)
    assert share_recognised(ROME, transcript_of(engine, answer).text) > 0.7
    *_, question = server.requests[asked:]
    assert share_recognised("意大利的首都是哪里？", question["messages"][-1]["content"]) > 0.7
    assert question["messages"][0]["content"].startswith("你是Antiphon")


def ask(view: DuplexView, question: Samples) -> list:  # type: ignore[type-arg]
    results = run_units(view, units_of(np.concatenate([silence(0.3), question])))
    return results if results[-1].end_of_turn else [*results, *listen(view)]


def test_commentary_and_check_ins_are_spoken_in_chinese(
    engine: LocalProcessor, view: DuplexView
) -> None:
    view.prepare("", DuplexConfig(force_listen_count=0, check_in_s=2.0))
    ask(view, said(engine, "你好！"))
    check_in = list(listen(view))
    view.add_text(TextKind.COMMENTARY, "你好，今天的天气很好。")
    commentary = list(listen(view))
    assert text_of(check_in) == said_in("zh", STILL_THERE[0])
    assert text_of(commentary) == "你好，今天的天气很好。"
    for results in (check_in, commentary):
        sound = soxr.resample(audio_of(results), OUTPUT_RATE, INPUT_RATE)
        assert share_recognised(text_of(results), transcript_of(engine, sound).text) > 0.6


def test_no_words_are_recognised_in_silence_and_noise(engine: LocalProcessor) -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 3 * INPUT_RATE).astype(np.float32)
    for sound in (silence(2.0), noise):
        transcript = transcript_of(engine, sound)
        assert not transcript.text or transcript.doubtful


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("你好。", "ni↓xau↓."),
        ("银行，行人", "i↗nxa↗ŋ, ɕi↗ŋɻə↗n"),
        ("四十四", "sɨ↘ ʂɨ↗ sɨ↘"),
        ("女儿绿了", "ny↓ɚ↗ ly↘ lɤ"),
        ("月亮", "ɥe↘ lja↘ŋ"),
    ],
)
def test_pinyin_is_written_in_the_symbols_of_the_network(text: str, symbols: str) -> None:
    assert symbols_of(list(text)).text == symbols


def test_each_character_has_a_place_in_the_symbols() -> None:
    shown = ["我", "用", " Python ", "写", "。"]
    symbols = symbols_of(shown)
    assert list(symbols.starts) == sorted(symbols.starts)
    assert len(symbols.starts) == len(shown)
    assert symbols.ids
    assert symbols_of([]).text == symbols_of([""]).text == ""


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from antiphon.inference_worker.engines.local.hearing import whisper

    files = find_files()
    swapped = files | {"model.bin": files["config.json"]}
    monkeypatch.setattr(whisper, "find_files", lambda: swapped)
    with pytest.raises(EngineLoadError, match=r"model\.bin .* is not that of .* --force-reinstall"):
        whisper.Whisper()
    monkeypatch.setattr(whisper, "PACKAGES", ("missing-part1", "missing-part2"))
    monkeypatch.undo()
    monkeypatch.setattr(whisper, "PACKAGES", ("missing-part1", "missing-part2"))
    with pytest.raises(EngineLoadError, match="Chinese speech needs the packages missing-part1"):
        whisper.Whisper()
