"""The sound of a session that is not an item yet, and the speech in it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from antiphon.inference_worker.engines.common.barge_in import Words
from antiphon.inference_worker.engines.common.endpointing import (
    SpeechEnded,
    SpeechStarted,
    StreamingVAD,
)
from antiphon.inference_worker.sessions.turn_listener import TurnListener
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import VadConfig

MOST_BUFFERED_S = 300
LEAST_COMMITTED_S = 0.1
_PER_MS = INPUT_RATE // 1000


@dataclass(frozen=True, slots=True)
class SpeechEdge:
    """The user began to speak at `at_ms` of the session's sound, or stopped there; `audio` is what was said."""

    at_ms: int
    audio: Samples | None = field(default=None, repr=False)
    silence_ms: int = 0


class Listener:
    """With a detector of speech, or with a buffer that the client commits."""

    def __init__(self, samples: int = 0) -> None:
        """`samples`: received before, by another worker."""
        self.samples = samples
        self._during_answers: TurnListener | None = None
        self._question: Samples | None = None
        """What the user said last, if the listener during answers has not learned it."""
        self._announced = False
        """The user has begun to speak, as the client knows."""
        self._config: VadConfig | None = None
        self._vad: StreamingVAD | None = None
        self._vad_began = samples
        self._buffer: list[Samples] = []
        self._buffered = 0

    @property
    def speaking(self) -> bool:
        """The detector hears the user speak."""
        return self._announced and self._vad is not None

    @property
    def idle(self) -> bool:
        """No sound is needed again."""
        guard = self._during_answers
        holds_voice = guard is not None and guard.holds_voice
        return not (self.speaking or self._buffered or holds_voice)

    @property
    def full(self) -> bool:
        return self._buffered >= MOST_BUFFERED_S * INPUT_RATE

    def guard(self, words: Callable[[Samples], Words | None] | None) -> None:
        """From now on, decide what interrupts an answer. `words` recognises what is said."""
        self._during_answers = TurnListener(words)

    def configure(self, config: VadConfig | None) -> list[SpeechEdge]:
        """Give what was said and is no item yet to another detector, or to the buffer. Blocks like `hear`.

        Speech that was announced is not announced again. It ends here if the new detector does not hear it.
        Only a change has an effect.
        """
        if config == self._config:
            return []
        guard, vad = self._during_answers, StreamingVAD(config) if config is not None else None
        if vad is not None and guard is not None and guard.is_open:  # it has the sound
            self._config, self._vad = config, vad
            return []
        announced = self._announced
        said, silent = self._said()
        sound = np.concatenate([said, np.zeros(silent, dtype=np.float32)])
        self._config, self._vad = config, vad
        self.clear()
        self._announced = announced
        if vad is None:
            self._buffer, self._buffered = [sound], len(sound)
            return []
        self._vad_began = self.samples - len(sound)
        edges = [self._spoken(event) for event in vad.feed(sound)]
        if not announced:
            return edges
        if edges:
            return edges[1:]
        self.clear()
        self._question = said
        silence_ms = silent // _PER_MS
        return [SpeechEdge(self.samples // _PER_MS - silence_ms, said, silence_ms)]

    def hear(self, samples: Samples, *, in_answer: bool = False) -> list[SpeechEdge]:
        """Add sound. Blocks for 2 to 3 ms for each second of it, and while it recognises words.

        `in_answer`: only sound that takes the turn is speech.
        """
        self.samples += len(samples)
        if self._vad is None:
            if not self.full:
                self._buffer.append(samples)
                self._buffered += len(samples)
            return []
        guard = self._during_answers
        if guard is not None and (guard.is_open or (in_answer and not self.speaking)):
            if not guard.is_open:
                guard.open(self._question)
                samples = np.concatenate([self._vad.speech_so_far()[1], samples])
                self._question = None
                self._vad.reset()
            if not guard.feed(samples) and in_answer:
                return []
            samples = guard.said()
            self._vad_began = self.samples - len(samples)
        return [self._spoken(event) for event in self._vad.feed(samples)]

    def commit(self) -> Samples | None:
        """What was said since the last item; None if it is too short. The buffer is empty afterwards."""
        audio, _ = self._said()
        self.clear()
        return audio if len(audio) >= LEAST_COMMITTED_S * INPUT_RATE else None

    def _said(self) -> tuple[Samples, int]:
        """What was said since the last item, and for how many samples the user has been silent since."""
        if self._vad is None:
            return np.concatenate([SILENCE, *self._buffer]), 0
        if self._during_answers is not None and self._during_answers.is_open:
            return self._during_answers.said(), 0
        begin, audio = self._vad.speech_so_far()
        if not len(audio):
            return audio, 0
        padding = self._config.speech_pad_ms * _PER_MS if self._config else 0
        begin = self._vad_began + max(0, begin - padding)
        return audio, max(0, self.samples - begin - len(audio))

    def clear(self) -> None:
        self._buffer, self._buffered, self._announced = [], 0, False
        self._vad_began = self.samples
        if self._during_answers is not None and self._during_answers.is_open:
            self._during_answers.said()
        if self._vad is not None:
            self._vad.reset()

    def _spoken(self, event: SpeechStarted | SpeechEnded) -> SpeechEdge:
        if isinstance(event, SpeechStarted):
            self._announced = True
            padding = self._config.speech_pad_ms if self._config else 0
            at_ms = (self._vad_began + event.sample) // _PER_MS - padding
            return SpeechEdge(max(at_ms, 0))
        self._announced = False
        self._question = event.audio
        at_ms = self.samples // _PER_MS - event.silence_ms
        return SpeechEdge(at_ms, event.audio, event.silence_ms)
