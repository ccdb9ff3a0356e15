"""The utterances in the audio of a full-duplex session, as text."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from antiphon.inference_worker.engines.common.barge_in import (
    BARGE_IN_MS,
    CLEAR_LEVEL,
    HESITATIONS,
    LONG_VOICE_MS,
    PAUSE_MS,
    SPEECH_LEVEL,
    VOICE_RULES,
    UserVoice,
    VoiceJudge,
    Words,
    is_hesitation,
)
from antiphon.inference_worker.engines.common.endpointing import (
    MAX_UTTERANCE_S,
    AudioBuffer,
    Endpoint,
    EndpointDetector,
    EndpointRules,
)
from antiphon.inference_worker.engines.common.loudness import (
    Background,
    UserLevel,
    VoiceMeter,
)
from antiphon.inference_worker.engines.common.silero import STEP_MS, STEP_SAMPLES, SpeechDetector
from antiphon.inference_worker.engines.local.hearing.completeness import LATEST, NORMAL, SOON
from antiphon.inference_worker.engines.local.hearing.interim import InterimText
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MIN_SPEECH_MS = 224.0
MIN_SPEECH_FLOOR_MS = 96.0
END_SILENCE_FLOOR_MS = 192.0

LIKELY_SILENCE_MS = 128.0
"""Longer than the silence before any plosive consonant."""

EARLY_SILENCE_MS = 64.0
"""After words that are a whole turn: the reply is prepared before it is certain that they are over."""

FILLERS = (
    HESITATIONS
    | {"huh", "mhm", "mm-h", "mm-hmm", "uh-hu", "uh-huh", "you"}
    | {"嗯", "嗯嗯", "啊", "呃", "哦", "噢", "唔", "哎", "咳", "咳咳", "哼", "呵呵"}
)
"""What the recogniser most often finds in coughs and in noise."""


def endpoint_rules(end_silence_ms: float, listen_prob_scale: float) -> EndpointRules:
    """Both durations times `listen_prob_scale`, with minimums so that 0 is usable.

    At 0.5 the engine answers after half the silence, at 2 after twice. At 100 it needs 48 s of
    silence after 22 s of speech, so it practically never answers.
    """
    return replace(
        VOICE_RULES,
        end_silence_ms=max(END_SILENCE_FLOOR_MS, end_silence_ms * listen_prob_scale),
        min_speech_ms=max(MIN_SPEECH_FLOOR_MS, MIN_SPEECH_MS * listen_prob_scale),
        max_ms=MAX_UTTERANCE_S * 1000,
    )


_PRE_ROLL = 6
"""Frames to keep before the first voiced one: the detector is late for soft consonants."""

_POST_ROLL = 1
"""Frames to keep after the last voiced one. The recogniser adds silence to both ends."""

_SEGMENT_PAUSE = 6
_SEGMENT_MIN = round(5_000 / STEP_MS)
_SEGMENT_MAX = round(14_000 / STEP_MS)
"""A long utterance is transcribed in pieces while it continues. A piece ends at a pause of
_SEGMENT_PAUSE frames if it has _SEGMENT_MIN frames, and always at _SEGMENT_MAX."""


@dataclass(frozen=True, slots=True)
class UnitTranscription:
    """The speech in one unit of audio.

    `text` has the utterances that ended in the unit, empty if none did. The end of the last one was
    detected `until` samples into the unit. `voiced_ms` is the longest voiced time in the unit and
    `clear_ms` the longest time of a clear voice, `talking_ms` the voiced time of the speech that
    continues at its end. `doubtful`: the recogniser does not believe the words itself. `spoken_ms`: how
    long before the end of the unit the first of the utterances began and the last one ended. `from_other`: the
    voice is much quieter than the user's.
    """

    text: str
    until: int
    voiced_ms: float
    clear_ms: float
    talking_ms: float
    doubtful: bool = False
    spoken_ms: tuple[float, float] | None = None
    from_other: bool = False
    words: Words | None = None
    """`text`, and how sure it is."""

    @property
    def is_noise(self) -> bool:
        """Whether the utterances are no words for the model: coughs, "um", somebody in the background.

        A cough is only fillers without a clear voice.
        """
        if self.from_other or is_hesitation(self.text):
            return True
        words = re.findall(r"[\w'-]+", self.text.lower())
        is_voice = self.clear_ms >= BARGE_IN_MS or self.voiced_ms >= LONG_VOICE_MS
        return not is_voice and bool(words) and FILLERS.issuperset(words)


class SpeechInput:
    """Detects and transcribes the utterances of one session."""

    def __init__(
        self, recogniser: Recogniser, rules: EndpointRules, pool: Executor | None = None
    ) -> None:
        """`pool` makes interim texts."""
        self._recogniser = recogniser
        self._detector = SpeechDetector()
        self._endpoints = EndpointDetector(rules)
        self._end_silence_ms = rules.end_silence_ms
        self._buffer = AudioBuffer()
        self._fed_samples = 0
        self._pieces: list[Transcript] = []
        self._piece_start: int | None = None
        self._last_read: tuple[Endpoint, Transcript] | None = None
        self._patience: tuple[Endpoint, float] | None = None
        self._clear_frames = 0
        self._background = Background()
        self._meter = VoiceMeter()
        self._user = UserLevel()
        self._judge = VoiceJudge()
        self._ended = -1
        """The first frame of the utterance that ended in the newest unit; negative if none did."""
        self._interim = InterimText(recogniser, pool)

    def feed(
        self, audio: Samples, patience: Callable[[str], float] | None = None
    ) -> UnitTranscription:
        """Add `audio` (16 kHz, any length).

        `patience` says by which factor the silence after a text must be longer than usual, at most
        LATEST. It is asked once per silence, at the end of `audio`: nothing can be answered before.
        """
        longest = LATEST if patience else NORMAL
        self._endpoints.longest_silence_ms = self._end_silence_ms * longest
        self._buffer.append(audio)
        ended: list[Transcript] = []
        spoken: list[Endpoint] = []
        until, voiced_ms, clear_ms = 0, self._endpoints.voiced_ms, 0.0
        self._user.passed(len(audio) / INPUT_RATE)
        for probability in self._detector.feed(audio):
            endpoint = self._endpoints.feed(self._foreground(probability))
            in_speech = self._endpoints.start is not None
            self._clear_frames += in_speech and probability >= CLEAR_LEVEL
            voiced_ms = max(voiced_ms, self._endpoints.voiced_ms)
            clear_ms = max(clear_ms, self._clear_frames * STEP_MS)
            if endpoint is None:
                self._cut_piece()
            elif (transcript := self._utterance(endpoint)).text:
                ended.append(transcript)
                spoken.append(endpoint)
                until = self._endpoints.frame * STEP_SAMPLES - self._fed_samples
            if not in_speech:
                self._clear_frames = 0
        if patience and (transcript := self._end_early(patience)).text:
            ended.append(transcript)
            spoken += [self._patience[0]] if self._patience else []
            until = self._endpoints.frame * STEP_SAMPLES - self._fed_samples
        self._fed_samples += len(audio)
        self._ended = spoken[-1].start if spoken else -1 - self._fed_samples
        self._forget()
        said, talking_ms = Transcript().after(ended), self._endpoints.voiced_ms
        return UnitTranscription(
            said.text,
            until,
            voiced_ms,
            clear_ms,
            talking_ms,
            doubtful=said.doubtful,
            words=Words(said.text, said.certainty) if said.text else None,
            from_other=not said.text and self._user.is_other(self._meter.db),
            spoken_ms=self._before_now(spoken),
        )

    def _before_now(self, spoken: Sequence[Endpoint]) -> tuple[float, float] | None:
        if not spoken:
            return None
        now_ms = self._fed_samples * 1000 / INPUT_RATE
        return now_ms - spoken[0].start * STEP_MS, now_ms - spoken[-1].stop * STEP_MS

    def means(self, transcription: UnitTranscription, *, asked: bool) -> UserVoice:
        """What the voice in the newest unit means for the model that speaks, and may have `asked` something."""
        if transcription.from_other:
            return UserVoice.NONE
        start = self._endpoints.start
        return self._judge.judge(
            self._ended if start is None else start,
            transcription.clear_ms,
            transcription.voiced_ms,
            goes_on=transcription.talking_ms > 0 and self._endpoints.pause_ms < PAUSE_MS,
            words=lambda: transcription.words or self._open_words(),
            asked=asked,
        )

    def _open_words(self) -> Words:
        """The words of the utterance that continues."""
        start = self._endpoints.start
        if start is None:
            return Words("")
        now = Endpoint(start, self._endpoints.frame, is_utterance=True)
        _, speech = self._open_speech(now)
        transcript = self._recogniser.transcribe(speech).after(self._pieces)
        return Words(transcript.text, transcript.certainty)

    def _foreground(self, probability: float) -> float:
        """The probability of speech in the next frame, 0 if it belongs to the background."""
        number = self._endpoints.frame
        frame = self._cut(number, number + 1)
        if not self._background.stands_out(frame):
            probability = 0.0
        if self._endpoints.start is None:
            self._meter.reset()
        if probability >= SPEECH_LEVEL:
            self._meter.add(frame)
        return probability

    @property
    def silence_ms(self) -> float:
        """How long the user had been silent at the end of the audio that was fed."""
        unread = self._fed_samples - self._endpoints.frame * STEP_SAMPLES
        return self._endpoints.silent_frames * STEP_MS + unread * 1000 / INPUT_RATE

    def likely_utterance(self) -> Transcript:
        """The utterance that ends if the silence continues.

        Without text during speech, and in the middle of a sentence. The transcription is reused if the
        utterance really ends there.
        """
        endpoint = self._endpoints.utterance_after(EARLY_SILENCE_MS)
        if endpoint is None or (self._patience == (endpoint, LATEST)):
            return Transcript()
        is_whole = self._patience == (endpoint, SOON)
        if self._endpoints.pause_ms < LIKELY_SILENCE_MS and not is_whole:
            return Transcript()
        if self._user.is_other(self._meter.db):
            return Transcript()
        return self._read(endpoint)

    def words_so_far(self, patience_s: float = 0.0) -> str:
        """What the user has said of the utterance that continues; empty if none does.

        The newest words may be missing (see InterimText).
        """
        endpoint = self._endpoints.utterance_after(0.0)
        if endpoint is None:
            return ""
        newest = self._interim.read(*self._open_speech(endpoint), patience_s)
        return Transcript(newest).after(self._pieces).text

    def _end_early(self, patience: Callable[[str], float]) -> Transcript:
        """The utterance after which the user has been silent long enough; without text if there is none."""
        likely = self._endpoints.utterance_after(EARLY_SILENCE_MS)
        if likely is None:
            return Transcript()
        if self._patience is None or self._patience[0] != likely:
            clear_ms = self._clear_frames * STEP_MS
            said = UnitTranscription(
                self._read(likely).text, 0, self._endpoints.voiced_ms, clear_ms, 0.0
            )
            counts = said.text and not said.is_noise
            self._patience = (likely, patience(said.text) if counts else NORMAL)
        silence_ms = max(END_SILENCE_FLOOR_MS, self._end_silence_ms * self._patience[1])
        if self._endpoints.end_after(silence_ms) is None:
            return Transcript()
        self._clear_frames = 0
        return self._utterance(likely)

    def _utterance(self, endpoint: Endpoint) -> Transcript:
        """The utterance that ended; without text for noise."""
        transcript = self._read(endpoint) if endpoint.is_utterance else Transcript()
        self._pieces, self._piece_start = [], None
        if not transcript.text or is_hesitation(transcript.text):
            return transcript
        return transcript if self._user.take(self._meter.db) else Transcript()

    def _read(self, endpoint: Endpoint) -> Transcript:
        if self._last_read is None or self._last_read[0] != endpoint:
            self._last_read = (endpoint, self._recognise(endpoint))
        return self._last_read[1]

    def _recognise(self, endpoint: Endpoint) -> Transcript:
        begin, speech = self._open_speech(endpoint)
        transcript = self._recogniser.transcribe(speech) if len(speech) else Transcript()
        self._interim.learn(begin, speech, transcript.text)
        return transcript.after(self._pieces)

    def _open_speech(self, endpoint: Endpoint) -> tuple[int, Samples]:
        """The speech after the pieces that were transcribed, with the sample at which it begins."""
        start = self._piece_start
        if start is None:
            start = endpoint.start - _PRE_ROLL
        stop = endpoint.stop + _POST_ROLL if start < endpoint.stop else start
        return start * STEP_SAMPLES, self._cut(start, stop)

    def _cut_piece(self) -> None:
        if self._endpoints.start is None:
            return
        now, pause = self._endpoints.frame, self._endpoints.pause_frames
        start = self._piece_start
        if start is None:
            start = self._endpoints.start - _PRE_ROLL
        elif now - pause <= start:  # the pause before the piece continues
            start = self._piece_start = max(start, now - _PRE_ROLL)
        likely = self._endpoints.utterance_after(LIKELY_SILENCE_MS)
        if likely and pause >= _SEGMENT_PAUSE and now - start >= _SEGMENT_MIN:
            self._pieces = [self._read(likely)]
        elif now - start >= _SEGMENT_MAX:
            self._pieces.append(self._recogniser.transcribe(self._cut(start, now - pause // 2)))
        else:
            return
        self._piece_start = now

    def _cut(self, start: int, stop: int) -> Samples:
        """The audio of these frames."""
        return self._buffer.cut(start * STEP_SAMPLES, stop * STEP_SAMPLES)

    def _forget(self) -> None:
        needed = self._endpoints.frame
        if self._piece_start is not None:
            needed = self._piece_start
        elif self._endpoints.start is not None:
            needed = self._endpoints.start
        self._buffer.forget_before((needed - _PRE_ROLL) * STEP_SAMPLES)
