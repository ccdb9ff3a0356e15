"""When the user's voice interrupts the model: one set of rules for all engines and kinds of sessions."""

import re
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from antiphon.inference_worker.engines.common.endpointing import (
    AudioBuffer,
    EndpointDetector,
    EndpointRules,
)
from antiphon.inference_worker.engines.common.loudness import Background, UserLevel, level_db
from antiphon.inference_worker.engines.common.silero import STEP_MS, STEP_SAMPLES, SpeechDetector
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

SPEECH_LEVEL = 0.5
"""The probability of speech from which a frame has some."""

SILENCE_LEVEL = 0.35
"""A frame between this and SPEECH_LEVEL continues speech but does not begin it."""

CLEAR_LEVEL = 0.85
"""A frame of a clear voice. Few coughs have BARGE_IN_MS of them. Words are no evidence of a voice: the
recogniser finds some in every cough."""

BARGE_IN_MS = 224.0
"""Clear voice after which the input is certainly speech."""

LONG_VOICE_MS = 800.0
"""Voiced time after which it is speech although the voice is not clear, as in noise. A laugh may be as long, so
the words must be probable."""

PAUSE_MS = 128.0
"""Voice that may become speech: what the model says next can wait for it. After so much silence it ends."""

_UNSURE_MS = 512.0
"""The model pauses until the voice is so long while the words do not decide: the recogniser does not believe
them, as of a hum, or there is one. It writes some word for most short sounds."""

_WORD_MS = 384.0
"""Clear voice of a single word that is certain: it interrupts when it is over, such as "Paris."."""

_CERTAIN = -0.25
_SURE = -0.45
_IMPROBABLE = -0.6
"""Mean log probabilities of a token. The words of laughs of 800 ms have -0.7 or less, those of interruptions as
long in 10 dB of noise -0.53 or more. Single words that are written for "hmm" and "uh" have -0.3 or less if
their voice is as long as _WORD_MS."""

_BACKCHANNEL_MS = 1500.0
"""A longer voice takes the turn, with any words."""

_LONGER_THAN_MOST_MS = 1000.0
"""A backchannel that is shorter becomes something else only if its words do so twice in a row: the recogniser
often adds words to its end."""

VOICE_RULES = EndpointRules(
    frame_ms=STEP_MS,
    speech_level=SPEECH_LEVEL,
    voiced_level=SPEECH_LEVEL,
    silence_level=SILENCE_LEVEL,
    end_silence_ms=480.0,
    min_speech_ms=BARGE_IN_MS,
)
_PRE_ROLL = 8
"""Frames before the voice that belong to it: the detector is late for soft consonants."""

HESITATIONS = frozenset(("ah", "ahem", "er", "erm", "hm", "hmm", "mm", "oh", "uh", "um"))

BACKCHANNELS = HESITATIONS | frozenset((
    "aha", "huh", "mhm", "mm-h", "mm-hmm", "mmhmm", "mmm", "uh-hu", "uh-huh", "ooh",
    "yeah", "yea", "yep", "yup", "yes", "yay", "yahoo", "okay", "ok", "alright", "all", "right", "sure",
    "i", "see", "got", "it", "really", "wow", "cool", "nice", "great", "good", "true", "exactly", "indeed",
    "of", "course", "interesting", "absolutely", "definitely", "totally", "amazing", "awesome", "lovely",
    "perfect", "well", "makes", "make", "sense", "c", "e", "m", "h", "amen", "and", "him", "them", "then",
))  # fmt: skip
"""Words that show that the user listens. The recogniser writes the last ones for "I see" and for a hum, and
"well" for "wow"."""

_HUM = re.compile(r"(?:a ?m[ae]n|an?d? mem)\b(?:,? \w+)?\W*")
"""What it writes for "mm-hmm"."""

_COMMANDS = frozenset((
    "stop", "wait", "no", "hey", "hold", "enough", "quiet", "silence", "what", "why", "who", "how", "pardon",
    "excuse", "sorry", "cancel", "pause", "next", "continue", "repeat", "hello", "hush", "shush", "louder",
    "slower", "faster", "again", "help", "when", "where", "actually", "never", "listen", "please", "now",
))  # fmt: skip
"""First words for which a short clear voice is enough, also without other words. The recogniser writes none of
them for a cough, improbable ones for "uh", and "now" for "no"."""

_NO_BACKCHANNELS = frozenset(
    (
        "and i",
        "i",
        "it",
        "of",
        "all",
        "and all",
        "got",
        "see",
        "of it",
        "and it",
        "make",
        "makes",
        "then",
    )
)
"""Beginnings of a sentence that have words of BACKCHANNELS only."""

_WORD = re.compile(r"[\w'-]+")


def is_backchannel(text: str) -> bool:
    """Whether `text` only shows that the user listens, such as "mm-hmm" and "oh, really"."""
    if _HUM.fullmatch(text.lower()):
        return True
    words = _WORD.findall(text.lower())
    return (
        bool(words) and BACKCHANNELS.issuperset(words) and " ".join(words) not in _NO_BACKCHANNELS
    )


def is_hesitation(text: str) -> bool:
    """Whether `text` has no words, such as "um"."""
    words = _WORD.findall(text.lower())
    return bool(words) and HESITATIONS.issuperset(words)


def is_command(text: str) -> bool:
    """Whether `text` begins with a word that interrupts, such as "stop" and "okay, stop"."""
    words = _WORD.findall(text.lower())
    first = next((word for word in words if word not in BACKCHANNELS), "")
    return first in _COMMANDS


def is_question(text: str) -> bool:
    """Whether `text` ends with a question: what the user says over its end answers it, also "yes"."""
    return text.rstrip(" \n\"'”’)").endswith(("?", "？"))


class Words(NamedTuple):
    """What is said in a piece of speech. `certainty`: the mean log probability of its tokens."""

    text: str
    certainty: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Whether the recogniser believes the words, also if they are few. What is written for a hum is not."""
        return self.certainty >= _SURE


def _answers(said: Words | None) -> bool:
    return said is not None and said.is_sure and bool(said.text) and not is_hesitation(said.text)


def _decides(said: Words, clear_ms: float, voiced_ms: float, *, goes_on: bool) -> bool:
    """Whether words that are no backchannel interrupt, in a voice of this length."""
    if not said.text:
        return False
    if said.certainty < _IMPROBABLE:
        return voiced_ms >= _UNSURE_MS and is_command(said.text)
    if voiced_ms >= LONG_VOICE_MS or is_command(said.text):
        return True
    if not said.is_sure:
        return False
    if voiced_ms >= _UNSURE_MS or len(_WORD.findall(said.text)) > 1:
        return True
    return not goes_on and clear_ms >= _WORD_MS and said.certainty >= _CERTAIN


class UserVoice(IntEnum):
    """What the user's voice means for the model that speaks."""

    NONE = 0
    """Nothing, or a sound that does not matter: a cough, a backchannel, somebody in the background."""
    MAYBE = 1
    """It may become speech: what the model says next should wait."""
    SPEECH = 2
    """The user takes the turn."""


class VoiceJudge:
    """Judges a voice again and again while it continues. For one session."""

    def __init__(self) -> None:
        self._start = -1
        self._listens = False
        """The voice is a backchannel, or was one and has had other words once."""
        self._had_others = False
        self._last: tuple[float, UserVoice] | None = None
        """What the voice that is over meant, and its length."""

    def judge(
        self,
        start: int,
        clear_ms: float,
        voiced_ms: float,
        *,
        goes_on: bool,
        words: Callable[[], Words | None],
        asked: bool = False,
    ) -> UserVoice:
        """What the voice that began in frame `start` means; it is not too quiet.

        `goes_on`: it may not be over yet. `words` is asked only if it is probably a voice. None for the words:
        there is no recogniser. `asked`: the model has just asked something, so words are an answer.
        """
        if start != self._start:
            self._start, self._listens, self._had_others, self._last = start, False, False, None
        if not goes_on and self._last is not None and self._last[0] == voiced_ms:
            return self._last[1]
        if clear_ms < BARGE_IN_MS and voiced_ms < LONG_VOICE_MS:
            meant = self._of_little(clear_ms, voiced_ms, goes_on=goes_on, words=words)
        elif voiced_ms >= _BACKCHANNEL_MS:
            meant = UserVoice.SPEECH
        elif self._listens and not goes_on:
            meant = UserVoice.NONE
        else:
            said = words()
            answers = asked and _answers(said)
            meant = (
                UserVoice.SPEECH
                if answers
                else self._of_words(said, clear_ms, voiced_ms, goes_on=goes_on)
            )
        self._last = None if goes_on else (voiced_ms, meant)
        return meant

    def _of_little(
        self, clear_ms: float, voiced_ms: float, *, goes_on: bool, words: Callable[[], Words | None]
    ) -> UserVoice:
        """What a sound means that may be no voice."""
        if clear_ms >= PAUSE_MS and not goes_on and (said := words()) and is_command(said.text):
            return UserVoice.SPEECH if said.certainty >= _IMPROBABLE else UserVoice.NONE
        return UserVoice.MAYBE if goes_on and voiced_ms >= PAUSE_MS else UserVoice.NONE

    def _of_words(
        self, said: Words | None, clear_ms: float, voiced_ms: float, *, goes_on: bool
    ) -> UserVoice:
        if said is None:
            return UserVoice.SPEECH
        if is_backchannel(said.text):
            self._listens, self._had_others = True, False
            return UserVoice.NONE
        if self._listens and not self._had_others and not is_command(said.text):
            self._had_others = True
            if voiced_ms < _LONGER_THAN_MOST_MS:
                return UserVoice.MAYBE
        self._listens = False
        if _decides(said, clear_ms, voiced_ms, goes_on=goes_on):
            return UserVoice.SPEECH
        return UserVoice.MAYBE if goes_on and voiced_ms < _UNSURE_MS else UserVoice.NONE


class BargeInGuard:
    """Listens to the user for engines that do not, and in half duplex while the model speaks."""

    def __init__(self, words: Callable[[Samples], Words | None] | None = None) -> None:
        """`words` recognises what is said in a piece of speech (16 kHz)."""
        self._words = words
        self._model_speaks = True
        self._background = Background()
        self._user = UserLevel()
        self.restart()

    def restart(self) -> None:
        """Listen to a new stream of the same user."""
        self._detector = SpeechDetector()
        self._endpoints = EndpointDetector(VOICE_RULES)
        self._buffer = AudioBuffer()
        self._judge_of = VoiceJudge()
        self._clear_ms = 0.0

    def feed(self, samples: Samples, *, model_speaks: bool = True) -> UserVoice:
        """Add audio (16 kHz, any length). What the voice in it means.

        While the model does not speak, its level is learned, and its words are not asked for.
        """
        self._model_speaks = model_speaks
        self._buffer.append(samples)
        self._user.passed(len(samples) / INPUT_RATE)
        found, kept = UserVoice.NONE, None
        for probability in self._detector.feed(samples):
            start, voiced_ms = self._endpoints.start, self._endpoints.voiced_ms
            frame = self._frame(self._endpoints.frame)
            of_user = probability if self._background.stands_out(frame) else 0.0
            ended = self._endpoints.feed(of_user)
            if ended is not None and start is not None:
                meant = self._judge(start, voiced_ms, goes_on=False)
                found, kept = max(found, meant), start if meant is UserVoice.SPEECH else kept
                if ended.is_utterance and not model_speaks:
                    self._user.take(self._level(start, ended.stop))
                self._clear_ms = 0.0
            elif self._endpoints.start is None:
                self._clear_ms = 0.0
            elif probability >= CLEAR_LEVEL:
                self._clear_ms += STEP_MS
        if self._endpoints.start is not None:
            voiced_ms = self._endpoints.voiced_ms
            goes_on = self._endpoints.pause_ms < PAUSE_MS
            found = max(found, self._judge(self._endpoints.start, voiced_ms, goes_on=goes_on))
        starts = [start for start in (kept, self._endpoints.start) if start is not None]
        begin = min([*starts, self._endpoints.frame])
        self._buffer.forget_before((begin - _PRE_ROLL) * STEP_SAMPLES)
        return found

    @property
    def voiced_ms(self) -> float:
        """Voiced time of the current voice."""
        return self._endpoints.voiced_ms

    @property
    def speech(self) -> Samples:
        """The current voice, or one that has just been found to be speech, with what comes right before it."""
        return self._buffer.samples

    def learn(self, utterance: Samples) -> None:
        """The user said this: so loud is the user's voice."""
        self._user.take(level_db(utterance))

    def _judge(self, start: int, voiced_ms: float, *, goes_on: bool) -> UserVoice:
        if self._user.is_other(
            self._level(start, self._endpoints.frame - self._endpoints.pause_frames)
        ):
            return UserVoice.NONE
        said = partial(self._said, start)
        return self._judge_of.judge(start, self._clear_ms, voiced_ms, goes_on=goes_on, words=said)

    def _said(self, start: int) -> Words | None:
        if self._words is None or not self._model_speaks:
            return None
        return self._words(self._cut(start - _PRE_ROLL, self._endpoints.frame))

    def _level(self, start: int, stop: int) -> float:
        return level_db(self._cut(start, max(stop, start + 1)))

    def _frame(self, number: int) -> Samples:
        return self._cut(number, number + 1)

    def _cut(self, start: int, stop: int) -> Samples:
        return self._buffer.cut(start * STEP_SAMPLES, stop * STEP_SAMPLES)
