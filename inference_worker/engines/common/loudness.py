"""How loud a voice is: against the noise around it, and against the user's own voice."""

import math
from collections import deque

import numpy as np

from antiphon.inference_worker.engines.common.silero import STEP_MS
from antiphon.shared_schemas.audio import Samples

_NOTHING_DB = -120.0

_SMOOTHED = 3
"""Frames whose mean power is compared: about 100 ms."""

_FLOOR_FRAMES = round(10_000 / STEP_MS)
_RISEN_FRAMES = round(3_000 / STEP_MS)
_RISEN_DB = 8.0
"""The background has begun or grown if the quietest moment of the last _RISEN_FRAMES is so much louder than
that of _FLOOR_FRAMES: even a reader who makes no pauses is quieter once in that time."""
_LOUD_FLOOR_DB = -55.0
"""A quieter background hides no voice, so soft endings of words count there."""
_SPREAD = 3.0
_LEAST_ABOVE_DB, _MOST_ABOVE_DB = 4.0, 13.0
"""Background is what is less above the quietest moment of the last _FLOOR_FRAMES: _SPREAD times the step from
there to the quietest tenth. It is small in steady noise and large in the talk of other guests."""

QUIETER_DB = 12.0
"""A voice so much quieter than the user's is somebody else's."""
_FORGOTTEN_DB_PER_S = 0.05
_LOUDER_DB = 4.0
"""The most that one utterance adds to the user's level: a shout is no measure."""
_STRANGERS = 3
"""The quiet voice is the user's if no other voice spoke in this many utterances before: the user has moved."""


def level_db(samples: Samples) -> float:
    """Mean power of `samples` in dBFS."""
    power = float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
    return max(_NOTHING_DB, 10 * math.log10(power)) if power > 0 else _NOTHING_DB


class Background:
    """Tells the frames of a stream that stand out from its noise."""

    def __init__(self) -> None:
        self._powers: deque[float] = deque(maxlen=_SMOOTHED)
        self._recent: deque[float] = deque(maxlen=_FLOOR_FRAMES)

    def stands_out(self, frame: Samples) -> bool:
        """Add a frame. False if it is as quiet as a background that is never silent."""
        self._powers.append(float(np.mean(np.square(frame, dtype=np.float64))))
        now_db = 10 * math.log10(max(1e-12, sum(self._powers) / len(self._powers)))
        self._recent.append(now_db)
        recent = list(self._recent)
        floor_db, newest = min(recent), recent[-_RISEN_FRAMES:]
        if len(newest) == _RISEN_FRAMES and min(newest) >= floor_db + _RISEN_DB:
            recent, floor_db = newest, min(newest)
        if floor_db < _LOUD_FLOOR_DB:
            return True
        tenth_db = sorted(recent)[len(recent) // 10]
        above_db = _SPREAD * (tenth_db - floor_db)
        return now_db >= floor_db + min(_MOST_ABOVE_DB, max(_LEAST_ABOVE_DB, above_db))


class VoiceMeter:
    """The mean level of the voice in the current speech."""

    def __init__(self) -> None:
        self._power, self._frames = 0.0, 0

    def add(self, frame: Samples) -> None:
        self._power += float(np.mean(np.square(frame, dtype=np.float64)))
        self._frames += 1

    def reset(self) -> None:
        self._power, self._frames = 0.0, 0

    @property
    def db(self) -> float:
        power = self._power / max(1, self._frames)
        return 10 * math.log10(power) if power > 0 else _NOTHING_DB


class UserLevel:
    """The level of the user's voice, learned from what the user said."""

    def __init__(self) -> None:
        self._db: float | None = None
        self._strangers = 0

    def passed(self, seconds: float) -> None:
        """So much of the stream has passed: the user may speak more softly than long ago."""
        if self._db is not None:
            self._db -= _FORGOTTEN_DB_PER_S * seconds

    def is_other(self, voice_db: float) -> bool:
        """Whether a voice of this level is much quieter than the user's."""
        return self._db is not None and voice_db < self._db - QUIETER_DB

    def take(self, voice_db: float) -> bool:
        """An utterance is complete. Whether it is the user's, whose level it then is."""
        if self.is_other(voice_db) and self._strangers < _STRANGERS:
            self._strangers += 1
            return False
        louder_db = voice_db if self._db is None else self._db + _LOUDER_DB
        self._strangers, self._db = 0, min(voice_db, louder_db)
        return True
