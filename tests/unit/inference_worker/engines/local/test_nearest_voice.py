"""A reference recording selects the nearest voice. The samples of the voices say words of their own."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices import speaker
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK, VOICES
from antiphon.inference_worker.engines.local.voices.espeak import espeak
from antiphon.inference_worker.engines.local.voices.nearest import MEASURES, nearest_voice
from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig, TtsConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart

pytestmark = pytest.mark.speech

SAMPLES = Path(speaker.__file__).parents[4] / "edge" / "assets" / "voice_samples"
NOISE = np.random.default_rng(7).normal(0.0, 0.1, 10 * INPUT_RATE).astype(np.float32)
AT = np.arange(10 * INPUT_RATE) / INPUT_RATE
LANGUAGES = [(language, name) for language, voices in VOICES.items() for name in voices]
GREETING = "Welcome back. I am glad that you are here again today."
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("Be brief."),))


def sample(name: str) -> Samples:
    """Said twice: about 5 s."""
    sound, rate = soundfile.read(SAMPLES / f"{name}.mp3", dtype="float32")
    return np.tile(soxr.resample(sound, rate, INPUT_RATE), 2)


def speaker_of(audio: Iterable[Samples]) -> str:
    """Whose voice it is."""
    sound = soxr.resample(np.concatenate(list(audio)), OUTPUT_RATE, INPUT_RATE)
    return nearest_voice(sound, "en", VOICES["en"])


def test_all_voices_are_measured() -> None:
    measured = json.loads(MEASURES.read_text(encoding="utf-8"))["voices"]
    assert set(measured) == {name for _, name in LANGUAGES}


@pytest.mark.parametrize(("language", "name"), LANGUAGES)
def test_another_text_of_a_voice_selects_that_voice(language: str, name: str) -> None:
    said = sample(name)
    assert nearest_voice(said, language, VOICES[language]) == name
    noisy = said + NOISE[: len(said)] * np.float32(np.std(said) / np.std(NOISE) / 10)
    assert nearest_voice(noisy, language, VOICES[language]) == name
    telephone = soxr.resample(soxr.resample(said, INPUT_RATE, 8000), 8000, INPUT_RATE)
    assert nearest_voice(telephone * np.float32(0.1), language, VOICES[language]) == name


@pytest.mark.parametrize(("voice", "gender"), [("en-us", "male"), ("en-us+f3", "female")])
def test_a_stranger_gets_a_voice_of_the_same_gender(voice: str, gender: str) -> None:
    raw = espeak().synthesise("Good evening. I will tell you a very long story.", voice, 150)
    said = np.concatenate(raw.pcm).astype(np.float32) / 32768
    said = soxr.resample(said, espeak().sample_rate, INPUT_RATE)
    assert VOICES["en"][nearest_voice(said, "en", VOICES["en"])].gender == gender


@pytest.mark.parametrize(
    "recording",
    [
        None,
        np.zeros(0, np.float32),
        np.zeros(10 * INPUT_RATE, np.float32),
        NOISE,
        np.cumsum(NOISE * 0.01),
        np.sin(2 * np.pi * 120 * AT).astype(np.float32) * np.float32(0.3),
        sample("george")[: INPUT_RATE // 2],
    ],
    ids=["none", "empty", "silence", "noise", "rumble", "hum", "half a second"],
)
def test_a_recording_without_enough_speech_selects_nothing(recording: Samples | None) -> None:
    assert nearest_voice(recording, "en", VOICES["en"]) == ""


def test_only_loaded_voices_of_the_language_are_selected() -> None:
    assert nearest_voice(sample("yunyang"), "en", VOICES["en"]) in VOICES["en"]
    assert nearest_voice(sample("george"), "en", {"fable", ESPEAK}) == "fable"
    assert nearest_voice(sample("george"), "en", {"heart", ESPEAK}) == "heart"
    assert nearest_voice(sample("george"), "en", {ESPEAK}) == ""


@pytest.fixture
def engine(local_engine: LocalProcessor, monkeypatch: pytest.MonkeyPatch) -> LocalProcessor:
    """On a busy machine too, eSpeak takes no natural voice's place."""
    monkeypatch.setattr(speaker, "LONGEST_WAIT_S", 1000.0)
    monkeypatch.setattr(speaker, "LONGEST_SILENCE_S", 1000.0)
    return local_engine


def spoken(deltas: Iterable[Delta]) -> str:
    return speaker_of([delta.audio for delta in deltas])


@pytest.mark.parametrize(("named", "speaks"), [("", "fenrir"), ("bella", "bella")])
def test_full_duplex_speaks_with_the_nearest_voice(
    engine: LocalProcessor, named: str, speaks: str
) -> None:
    assert engine.info.matches_voice
    config = DuplexConfig(greeting=GREETING, voice=named, max_new_speak_tokens_per_chunk=200)
    view = engine.set_duplex_mode()
    try:
        view.prepare("Be brief.", config, sample("emma"), sample("fenrir"))
        audio = []
        for _ in range(4):
            view.prefill(np.zeros(INPUT_RATE, np.float32))
            audio.append(view.generate().audio)
        assert speaker_of(one for one in audio if one is not None) == speaks
    finally:
        view.cleanup()


@pytest.mark.parametrize("said", ["", "Welcome back."], ids=["first worker", "takes over"])
def test_half_duplex_speaks_with_the_nearest_voice(engine: LocalProcessor, said: str) -> None:
    view = engine.set_half_duplex_mode()
    try:
        view.prepare(SYSTEM, HalfDuplexConfig(greeting=GREETING), sample("isabella"))
        assert spoken(view.greet(said)) == "isabella"
    finally:
        view.cleanup()


def test_chat_speaks_with_the_nearest_voice(engine: LocalProcessor) -> None:
    view = engine.set_chat_mode()
    asked = ConversationMessage(Role.USER, (TextPart("Who are you?"),))
    try:
        view.prefill([SYSTEM, asked], ChatOptions(tts=TtsConfig(enabled=True)), sample("michael"))
        assert spoken(view.generate()) == "michael"
    finally:
        view.cleanup()
