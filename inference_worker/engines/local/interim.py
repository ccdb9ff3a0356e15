"""The text of a speech that continues, for captions. What it costs is bounded, and nothing waits for it."""

from __future__ import annotations

import numpy as np

from antiphon.inference_worker.engines.local.transcription import Recogniser
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_PERIOD = INPUT_RATE // 2
"""Audio between two transcriptions."""

_LONGEST = 4 * INPUT_RATE
_TAIL = INPUT_RATE
"""A speech that is longer than _LONGEST is cut where it is quietest, at least _TAIL before its end. The text
before the cut is final here."""

_HOP = INPUT_RATE // 20


class InterimText:
    """Transcribes a speech while it grows, at most twice per second and while the recogniser is idle.

    It transcribes at most _LONGEST of audio at a time, so that no transcript of a whole utterance waits long.
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
        cut = _quietest(rest) if len(rest) > _LONGEST else len(rest)
        text = self._recogniser.transcribe_in_passing(rest[:cut]) if cut else ""
        if text is None:
            return self._text
        self._due = begin + len(speech) + _PERIOD
        joined = " ".join(filter(None, (self._head, text)))
        if cut < len(rest):  # the words after the cut stay as they were until the next time
            self._head, self._head_samples = joined, self._head_samples + cut
        else:
            self._text = joined
        return self._text

    def learn(self, begin: int, speech: Samples, text: str) -> None:
        """The speech was transcribed otherwise."""
        self._continue(begin)
        self._text, self._due = text, begin + len(speech) + _PERIOD

    def _continue(self, begin: int) -> None:
        if begin != self._begin:
            self._begin, self._head, self._head_samples, self._text = begin, "", 0, ""


def _quietest(speech: Samples) -> int:
    """A place in the second half, before the last _TAIL."""
    first = len(speech) // 2
    hops = speech[first:-_TAIL][: (len(speech) - _TAIL - first) // _HOP * _HOP].reshape(-1, _HOP)
    return first + int(np.argmin(np.square(hops).sum(axis=1))) * _HOP + _HOP // 2
