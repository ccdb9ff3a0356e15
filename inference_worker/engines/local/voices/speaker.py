"""The voices of an engine, and the speaker of one answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import structlog

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import clauses_of, words_of
from antiphon.inference_worker.engines.local.rules.manner import USUAL, Manner
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    ESPEAK,
    ESPEAK_ENTRIES,
    ESPEAK_VOICES,
    VOICES,
)
from antiphon.inference_worker.engines.local.voices.kokoro import Kokoro
from antiphon.inference_worker.engines.local.voices.nearest import nearest_voice
from antiphon.inference_worker.engines.local.voices.queue import SynthesisQueue
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.local.voices.voice import (
    EspeakVoice,
    KokoroVoice,
    Voice,
    measured_speed,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.voices import NamedVoice

LONGEST_WAIT_S = 0.7
"""An answer whose clause would wait longer for other sessions, in silence, is spoken by eSpeak."""

LONGEST_SILENCE_S = 2.5
"""The same if the clause would be ready later than this, on a machine that other programs keep busy."""

SLOWEST_SPEED = 0.8
"""Seconds of computation per second of speech: a slower machine gets eSpeak for all answers."""

REHEARSED = (
    "Hello! How can I help you?",
    "I am well, thank you. How can I help you?",
    "My name is Antiphon. I am a small voice assistant.",
    "Yes, I hear you.",
    "I have no access to the internet, so I do not know the weather.",
    "You are welcome.",
    "Goodbye! It was nice to talk with you.",
    "I did not understand that. Please say it in a whole sentence.",
)
"""Answers that begin most conversations, the most likely first.

Together they take 10 s of CPU time on a Xeon with AMX.
"""

_SENTENCE_PAUSE = np.zeros(OUTPUT_RATE * 3 // 10, dtype=np.float32)
_CLAUSE_PAUSE = np.zeros(OUTPUT_RATE * 15 // 100, dtype=np.float32)

log = structlog.get_logger()


class Speaker:
    """Speaks one answer, clause by clause, with the pauses between them. For one thread."""

    def __init__(self, voice: Voice, stand_in: Voice, manner: Manner = USUAL) -> None:
        self._voice = voice
        self._manner = manner
        self._stand_in = stand_in
        self._previous: Clause | None = None
        self._silent_at = 0.0
        """When everything will have been played, as a value of time.perf_counter()."""

    def speak(
        self,
        clause: Clause,
        costs: StageCosts,
        cancellation: Cancellation | None = None,
    ) -> Iterator[SpokenClause]:
        """The audio of `clause` in parts, after the pause that follows the clause before.

        Raises SynthesisCancelled if it is cancelled.
        """
        now = time.perf_counter()
        needed_at = max(now, self._silent_at)
        if isinstance(self._voice, KokoroVoice):
            wait, work = self._voice.estimate_s(clause, needed_at, self._manner.speed)
            ahead = needed_at - now
            late = wait > max(LONGEST_WAIT_S, ahead) or wait + work > max(LONGEST_SILENCE_S, ahead)
            if late and self._stand_in is not self._voice:
                log.info("voice_degraded", voice=ESPEAK, wait_s=wait, work_s=work)
                self._voice.give_up()
                self._voice = self._stand_in
        pause = _pause_after(self._previous)
        with closing(self._parts(clause, needed_at, cancellation)) as parts:
            while True:
                with costs.measure("tts"):
                    part = next(parts, None)
                if part is None:
                    return
                if len(part.audio):
                    part, pause = self._after(pause, part), SILENCE
                    self._previous = clause
                yield part

    def _parts(
        self, clause: Clause, needed_at: float, cancellation: Cancellation | None
    ) -> Generator[SpokenClause, None, None]:
        voice, speed = self._voice, self._manner.speed
        if isinstance(voice, KokoroVoice):
            yield from voice.speak_in_pieces(clause, needed_at, speed, cancellation)
        else:
            yield voice.speak(clause, needed_at, speed)

    def _after(self, pause: Samples, part: SpokenClause) -> SpokenClause:
        sound = np.concatenate([pause, _amplified(part.audio, self._manner.gain)])
        self._silent_at = max(self._silent_at, time.perf_counter()) + len(sound) / OUTPUT_RATE
        return replace(
            part,
            audio=sound,
            starts=tuple(len(pause) + start for start in part.starts),
            phonemes=tuple(len(pause) + start for start in part.phonemes),
        )


@dataclass(frozen=True, slots=True)
class Voices:
    """The loaded voices by id. `default` speaks where a session names none."""

    by_id: dict[str, Voice]
    default: Voice
    problem: str = ""
    """Why there are no natural voices."""
    language: str = "en"

    @classmethod
    def load(cls, voice: str, words_per_minute: int, language: str = "en") -> Voices:
        """`voice` is the default: an id, `espeak`, or a voice of eSpeak such as `de` or `en-us+Hugo`.

        The others speak `language` too. Raises EngineLoadError for a voice that does not exist.
        """
        natural = VOICES[language]
        own = ESPEAK_VOICES[language] if voice in (ESPEAK, *natural) else voice
        espeak = EspeakVoice(own, words_per_minute)
        loaded: dict[str, Voice] = {ESPEAK: espeak}
        if voice not in natural:
            return cls(loaded, espeak, language=language)
        try:
            loaded = {**_natural_voices(language), **loaded}
        except EngineLoadError as error:
            log.warning("natural_voices_unavailable", error=str(error), voice=ESPEAK)
            return cls(loaded, espeak, str(error), language)
        return cls(loaded, loaded[voice], language=language)

    @property
    def entries(self) -> tuple[NamedVoice, ...]:
        natural = VOICES[self.language]
        return tuple(
            natural[name].entry if name in natural else ESPEAK_ENTRIES[self.language]
            for name in self.by_id
        )

    def choose(self, named: str, reference: Samples | None) -> str:
        """The voice of a session: the named one, or else the one nearest to the reference recording.

        Empty, for the default, if the recording has too little speech.
        """
        return named or nearest_voice(reference, self.language, self.by_id)

    def rehearse(self, cancellation: Cancellation, is_busy: Callable[[], bool]) -> bool:
        """Speak the most likely answers ahead with the default voice, until cancelled or `is_busy`.

        Returns whether that was all; another call continues.
        """
        if not isinstance(self.default, KokoroVoice) or self.language != "en":
            return True
        for text in REHEARSED:
            for clause in clauses_of(words_of(text)):
                if is_busy():
                    return False
                try:
                    self.default.rehearse(clause, cancellation)
                except SynthesisCancelled:
                    return False
        return True

    def speaker(self, voice: str = "", manner: Manner = USUAL) -> Speaker:
        """The speaker of a new answer, with the default voice if `voice` is empty.

        A session that began on another worker may have a voice that is not loaded here.
        """
        chosen = self.by_id.get(voice, self.default)
        # eSpeak's Chinese is hard to understand, so the listener waits rather than hears it.
        stand_in = chosen if self.language == "zh" else self.by_id[ESPEAK]
        return Speaker(chosen, stand_in, manner)


def _natural_voices(language: str) -> dict[str, Voice]:
    """Raises EngineLoadError if the weights are missing, or this machine is too slow for them."""
    network = Kokoro()
    speed, seconds_per_letter = measured_speed(network, VOICES["en"][DEFAULT_VOICE])
    if speed > SLOWEST_SPEED:
        raise EngineLoadError(
            f"the natural voices need {speed:.1f} s of this machine for a second of speech; "
            f"{SLOWEST_SPEED} s is the most"
        )
    queue, said = SynthesisQueue(seconds_per_letter), SaidBefore()
    return {
        name: KokoroVoice(network, queue, voice, said) for name, voice in VOICES[language].items()
    }


def _amplified(audio: Samples, gain: float) -> Samples:
    """Louder speech is compressed at its peaks, which would be cut off otherwise."""
    if gain <= 1.0:
        return audio * np.float32(gain)
    louder: Samples = np.tanh(audio * np.float32(gain))
    return louder


def _pause_after(clause: Clause | None) -> Samples:
    if clause is None:
        return SILENCE
    return _SENTENCE_PAUSE if clause.ends_sentence else _CLAUSE_PAUSE
