"""The text of a speech that continues, for captions. What it costs is bounded, and nothing waits for it."""

from __future__ import annotations

import numpy as np

from antiphon.inference_worker.engines.local.transcription import Recogniser
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_PERIOD = INPUT_RATE // 2
"""Audio between two transcriptions."""

_LONGEST = 5 * INPUT_RATE
_TAIL = INPUT_RATE
"""A speech that is longer than _LONGEST is cut where it is quietest, at least _TAIL before its end. What was
said before the cut is not transcribed here again."""

_HOP = INPUT_RATE // 10


class InterimText:
    """Transcribes a speech while it grows, at most twice per second and while the recogniser is idle.

    It cuts long speeches, so that no transcript of a whole utterance has to wait long for it.
    """

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self._begin = 0
        self._head, self._head_samples = "", 0
        self._text = ""
        self._due = 0

    def read(self, begin: int, speech: Samples) -> str:
        """The text of the speech (16 kHz) that began at this sample of its stream.

        The newest words may be missing.
        """
        self._continue(begin)
        if begin + len(speech) < self._due:
            return self._text
        rest = speech[self._head_samples :]
        cut = _quietest(rest) if len(rest) > _LONGEST else 0
        texts = self._recogniser.transcribe_in_passing(rest[:cut], rest[cut:])
        if texts is None:
            return self._text
        self._due = begin + len(speech) + _PERIOD
        head, tail = texts
        if cut:
            self._head, self._head_samples = _joined(self._head, head), self._head_samples + cut
        self._text = _joined(self._head, tail)
        return self._text

    def learn(self, begin: int, speech: Samples, text: str) -> None:
        """The speech was transcribed otherwise."""
        self._continue(begin)
        self._text, self._due = text, begin + len(speech) + _PERIOD

    def _continue(self, begin: int) -> None:
        if begin != self._begin:
            self._begin, self._head, self._head_samples, self._text = begin, "", 0, ""


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _quietest(speech: Samples) -> int:
    """A place after the first third and before the last _TAIL."""
    first = len(speech) // 3
    count = (len(speech) - _TAIL - first) // _HOP
    hops = speech[first : first + count * _HOP].reshape(count, _HOP)
    return first + int(np.argmin(np.square(hops).sum(axis=1))) * _HOP + _HOP // 2
