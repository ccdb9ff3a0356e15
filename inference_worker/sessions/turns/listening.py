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
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
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
        self.speaking = False
        self._config: VadConfig | None = None
        self._vad: StreamingVAD | None = None
        self._vad_began = samples
        self._buffer: list[Samples] = []
        self._buffered = 0

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

    def configure(self, config: VadConfig | None) -> None:
        """Only a change has an effect."""
        if config == self._config and (config is None) == (self._vad is None):
            return
        self._config = config
        self._vad = StreamingVAD(config) if config is not None else None
        self.clear()

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
        if self._vad is None:
            audio = np.concatenate(self._buffer) if self._buffer else None
        elif self._during_answers is not None and self._during_answers.is_open:
            audio = self._during_answers.said()
        else:
            audio = self._vad.speech_so_far()[1]
        self.clear()
        if audio is None or len(audio) < LEAST_COMMITTED_S * INPUT_RATE:
            return None
        return audio

    def clear(self) -> None:
        self._buffer, self._buffered, self.speaking = [], 0, False
        self._vad_began = self.samples
        if self._during_answers is not None and self._during_answers.is_open:
            self._during_answers.said()
        if self._vad is not None:
            self._vad.reset()

    def _spoken(self, event: SpeechStarted | SpeechEnded) -> SpeechEdge:
        if isinstance(event, SpeechStarted):
            self.speaking = True
            padding = self._config.speech_pad_ms if self._config else 0
            at_ms = (self._vad_began + event.sample) // _PER_MS - padding
            return SpeechEdge(max(at_ms, 0))
        self.speaking = False
        self._question = event.audio
        at_ms = self.samples // _PER_MS - event.silence_ms
        return SpeechEdge(at_ms, event.audio, event.silence_ms)
