"""Speech for tests: eSpeak NG speaks a question, Moonshine transcribes the answer."""

import functools
import re

import numpy as np
import soxr

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.speech import joined
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICE
from antiphon.inference_worker.engines.local.voices.speaker import Speaker, Voices
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from support.synthetic_speech import spoken, units_of


@functools.cache
def say(text: str) -> Samples:
    """The sentence as float32 at 16 kHz, without leading or trailing silence."""
    return spoken(text, lead_s=0.0)


def seconds(*parts: Samples | float) -> list[Samples]:
    """Speech and pauses (in seconds) one after another, in the 1 s chunks that a client sends."""
    line = [np.zeros(int(p * INPUT_RATE), np.float32) if isinstance(p, float) else p for p in parts]
    return units_of(np.concatenate(line))


@functools.cache
def _recogniser() -> Recogniser:
    return Recogniser()


def transcribe(audio: Samples) -> str:
    return _recogniser().transcribe(soxr.resample(audio, OUTPUT_RATE, INPUT_RATE)).text


def words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.findall(r"[a-z']+", text.lower())


def share_recognised(text: str, transcript: str) -> float:
    """The share of the spoken words that were recognised, in any order."""
    spoken = words(text)
    rest = words(transcript)
    found = 0
    for word in spoken:
        if word in rest:
            rest.remove(word)
            found += 1
    return found / len(spoken) if spoken else 0.0


def share_voiced(text: str, audio: Samples) -> float:
    """The share of `text` in a 24 kHz recording of the model's voice.

    A small model may answer with words that the recogniser does not know. So this also counts the
    words that it recognises in the same text when synthesised here.
    """
    transcript = transcribe(audio)
    reference = transcribe(_read_out(text))
    return max(share_recognised(text, transcript), share_recognised(reference, transcript))


def _read_out(text: str) -> Samples:
    voice = _voices().default
    speaker = Speaker(voice, voice)  # another voice may stand in only for the model's
    splitter = ClauseSplitter()
    clauses = [*splitter.feed(text), *splitter.flush()]
    return joined(part for each in clauses for part in speaker.speak(each, StageCosts())).audio


@functools.cache
def _voices() -> Voices:
    return Voices.load(DEFAULT_VOICE, 150)
