"""The text of a speech that continues, for captions. Its cost is bounded, and nothing waits long for it."""

from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass

import numpy as np

from antiphon.inference_worker.engines.local.chinese.script import joined
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_PERIOD = INPUT_RATE // 2
"""Audio between two transcriptions."""

_LONGEST = 5 * INPUT_RATE
_TAIL = INPUT_RATE
"""A speech that is longer than _LONGEST is cut where it is quietest, at least _TAIL before its end. What was
said before the cut is not transcribed here again."""

_HOP = INPUT_RATE // 10


@dataclass(frozen=True, slots=True)
class _Job:
    """A transcription of the speech that begins at `begin`, up to `stop`, in two parts divided at `cut`."""

    begin: int
    stop: int
    cut: int
    texts: Future[list[str] | None]


class InterimText:
    """Transcribes a speech while it grows, at most twice per second and while the recogniser is idle.

    It cuts long speeches, so that no transcript of a whole utterance has to wait long for it. For one thread.
    """

    def __init__(self, recogniser: Recogniser, pool: Executor | None = None) -> None:
        """Without `pool`, `read` waits for each transcription."""
        self._recogniser = recogniser
        self._pool = pool
        self._job: _Job | None = None
        self._begin = 0
        self._head, self._head_samples = "", 0
        self._text, self._read_until = "", 0
        self._due = 0

    def read(self, begin: int, speech: Samples, patience_s: float = 0.0) -> str:
        """The text of the speech (16 kHz) that began at this sample of its stream.

        Words of the last transcription are missing if it takes longer than `patience_s`. The next call
        has them.
        """
        self._continue(begin)
        self._collect(0.0)
        if self._job is None and begin + len(speech) >= self._due:
            self._start(begin, speech)
            self._collect(patience_s)
        return self._text

    def learn(self, begin: int, speech: Samples, text: str) -> None:
        """The speech was transcribed otherwise."""
        self._continue(begin)
        self._text, self._read_until = text, begin + len(speech)
        self._due = self._read_until + _PERIOD

    def _continue(self, begin: int) -> None:
        if begin != self._begin:
            self._begin, self._head, self._head_samples = begin, "", 0
            self._text, self._read_until = "", 0

    def _start(self, begin: int, speech: Samples) -> None:
        rest = speech[self._head_samples :]
        cut = _quietest(rest) if len(rest) > _LONGEST else 0
        parts = rest[:cut], rest[cut:]
        if self._pool is None:
            texts: Future[list[str] | None] = Future()
            texts.set_result(self._recogniser.transcribe_in_passing(*parts))
        else:
            texts = self._pool.submit(self._recogniser.transcribe_in_passing, *parts)
        self._job = _Job(begin, begin + len(speech), cut, texts)

    def _collect(self, patience_s: float) -> None:
        job = self._job
        if job is None or not wait([job.texts], patience_s).done:
            return
        self._job, texts = None, job.texts.result()
        if texts is None or job.begin != self._begin or job.stop <= self._read_until:
            return
        head, tail = texts
        if job.cut:
            self._head = joined((self._head, head))
            self._head_samples += job.cut
        self._text, self._read_until = joined((self._head, tail)), job.stop
        self._due = job.stop + _PERIOD


def _quietest(speech: Samples) -> int:
    """A place after the first third and before the last _TAIL."""
    first = len(speech) // 3
    count = (len(speech) - _TAIL - first) // _HOP
    hops = speech[first : first + count * _HOP].reshape(count, _HOP)
    return first + int(np.argmin(np.square(hops).sum(axis=1))) * _HOP + _HOP // 2
