"""Plans a replay from a journal: which sound, frame and caption plays when. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from operator import itemgetter

from antiphon.recorder_service.journal.journal import (
    JournalContents,
    JournalEntries,
    JournalEntry,
    is_entry,
    select,
)
from antiphon.recorder_service.journal.state import JournalState
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.entries import (
    BreakIn,
    CancelIn,
    ChatIn,
    ChunkIn,
    GeneratingOut,
    InterruptedOut,
    ResultOut,
    SettingsIn,
    StreamEntry,
    TruncateItemIn,
    VadOut,
)
from antiphon.shared_schemas.states import SessionKind

JITTER_S = 0.2
"""A chunk that arrives late by less than this follows the previous chunk without a gap."""

_CAPTION_CHARS = 84
"""About two lines of a subtitle. A turn that says more starts a new caption."""

_CAPTION_STAYS_MS = 1500.0


@dataclass(frozen=True, slots=True)
class TimedSound:
    """`samples` of sound in a file that arrived `at_ms` after the session's start."""

    at_ms: float
    file: str
    samples: int


@dataclass(frozen=True, slots=True)
class PlacedClip:
    """The first `samples` of a file, played from sample `start` of its channel."""

    start: int
    file: str
    samples: int

    @property
    def stop(self) -> int:
        return self.start + self.samples


@dataclass(frozen=True, slots=True)
class TimedFrame:
    """A frame's file, shown from `at_ms` on."""

    at_ms: int
    file: str


@dataclass(frozen=True, slots=True)
class SpokenText:
    """The words of one unit and when they play. `ends_turn`: the last unit of its turn."""

    at_ms: float
    until_ms: float
    text: str
    ends_turn: bool


@dataclass(frozen=True, slots=True)
class Caption:
    """A subtitle, shown from `start_ms` until `end_ms`."""

    start_ms: int
    end_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Clips of the user (16 kHz) and the model (24 kHz), frames and captions.

    The clock starts `lead_ms` before the session: a chat's user spoke before the request.
    """

    lead_ms: float
    user: list[PlacedClip]
    model: list[PlacedClip]
    frames: list[TimedFrame]
    captions: list[Caption]

    @property
    def seconds(self) -> float:
        return _seconds(self.user, self.model)


def plan_replay(kind: SessionKind, state: JournalState, contents: JournalContents) -> ReplayPlan:
    """The plan of a recorded session; empty when the session has no sound."""
    start, inputs, outputs = state.start_ms, contents.inputs, contents.outputs
    if kind is SessionKind.CHAT:
        return _plan_chat(state, outputs)
    captured = _sounds((item.entry.at - start, item) for item in select(inputs, ChunkIn))
    user = place_captured(list(captured), INPUT_RATE)
    cutoffs = _cutoffs(inputs, outputs, start)
    model = place_played(_model_sounds(outputs, start), cutoffs, OUTPUT_RATE)
    if not kind.is_duplex:
        return ReplayPlan(0.0, user, model, [], [])
    words = list(_spoken_texts(outputs, model, start))
    captions = lay_out_captions(words, _seconds(user, model) * 1000)
    return ReplayPlan(0.0, user, model, list(_frames(inputs, user, start)), captions)


def _seconds(user: list[PlacedClip], model: list[PlacedClip]) -> float:
    users = max((clip.stop for clip in user), default=0) / INPUT_RATE
    models = max((clip.stop for clip in model), default=0) / OUTPUT_RATE
    return max(users, models)


def _plan_chat(state: JournalState, outputs: JournalEntries) -> ReplayPlan:
    request = state.prepare
    asked = list(_asked(request)) if request and is_entry(request, ChatIn) else []
    lead_ms = sum(samples for _, samples in asked) * 1000 / INPUT_RATE
    spoken = [TimedSound(lead_ms, file, samples) for file, samples in asked]
    user = place_captured(spoken, INPUT_RATE)
    model = place_played(_model_sounds(outputs, state.start_ms - lead_ms), (), OUTPUT_RATE)
    return ReplayPlan(lead_ms, user, model, [], [])


def _asked(request: JournalEntry[ChatIn]) -> Iterator[tuple[str, int]]:
    """The files of the user's sounds and their samples. The request arrives when they are over."""
    for message in request.entry.content:
        for part in message["parts"] if message["role"] == "user" else ():
            saved = request.media.parts[part["blob"]] if "blob" in part else None
            if saved is not None and saved.file is not None and saved.samples is not None:
                yield saved.file, saved.samples


def _sounds(
    arrivals: Iterable[tuple[float, JournalEntry[StreamEntry]]],
) -> Iterator[TimedSound]:
    for at_ms, item in arrivals:
        audio = item.media.audio
        if audio is not None and audio.file is not None and audio.samples is not None:
            yield TimedSound(at_ms, audio.file, audio.samples)


def _arrivals(
    entries: JournalEntries, start: float
) -> Iterator[tuple[float, JournalEntry[StreamEntry]]]:
    """When each entry arrived, in the stream's order: a second worker's clock may be behind."""
    latest = float("-inf")
    for item in entries:
        latest = max(latest, item.entry.at - start)
        yield latest, item


def _model_sounds(outputs: JournalEntries, start: float) -> Iterator[TimedSound]:
    """The sound of answers; a `generating` entry carries the user's utterance instead."""
    arrivals = _arrivals(outputs, start)
    return _sounds((at, item) for at, item in arrivals if not is_entry(item, GeneratingOut))


def _cutoffs(inputs: JournalEntries, outputs: JournalEntries, start: float) -> list[float]:
    """When the client dropped unplayed sound."""
    interruptions = _Interruptions()
    arrivals = merge(_arrivals(inputs, start), _arrivals(outputs, start), key=itemgetter(0))
    return [at_ms for at_ms, item in arrivals if interruptions.add(item.entry)]


class _Interruptions:
    """Finds the entries of both streams, by time, at which a client drops unplayed sound."""

    def __init__(self) -> None:
        self._forced = False
        """The newest chunk forces the model to listen."""
        self._mid_turn = False
        self._by_voice = False
        """The speech of the user ends an answer, in a session of the kind `turns`."""
        self._answer: GeneratingOut | None = None

    def add(self, entry: StreamEntry) -> bool:
        """Add the next entry. Whether the client drops unplayed sound."""
        match entry:
            case BreakIn() | InterruptedOut():
                return True
            case ChunkIn():
                forced, self._forced = self._forced, entry.force_listen
                return entry.force_listen and not forced
            case ResultOut():
                cut = entry.is_listen and (self._mid_turn or entry.interrupted)
                self._mid_turn = not (entry.is_listen or entry.end_of_turn)
                return cut
        return self._add_to_turns(entry)

    def _add_to_turns(self, entry: StreamEntry) -> bool:
        """A command of the client counts if it names the newest answer."""
        answer = self._answer
        match entry:
            case SettingsIn():
                self._by_voice = entry.config.interruptible
            case GeneratingOut():
                self._answer = entry
            case VadOut():
                return entry.speaking and self._by_voice
            case CancelIn() if answer is not None:
                return entry.response_id in (None, answer.response_id)
            case TruncateItemIn() if answer is not None:
                return entry.item_id == answer.item_id
        return False


def _spoken_texts(
    outputs: JournalEntries, model: list[PlacedClip], start: float
) -> Iterator[SpokenText]:
    """Each unit's words at the time its sound plays. Words whose sound was cut off are left out."""
    clips = {clip.file: clip for clip in model}
    for item in select(outputs, ResultOut):
        unit, audio = item.entry, item.media.audio
        if unit.is_listen or not unit.text:
            continue
        at = until = unit.at - start
        if audio is not None and audio.file is not None:
            clip = clips.get(audio.file)
            if clip is None:
                continue
            at, until = (sample * 1000 / OUTPUT_RATE for sample in (clip.start, clip.stop))
        yield SpokenText(at, until, unit.text, unit.end_of_turn)


def _frames(inputs: JournalEntries, user: list[PlacedClip], start: float) -> Iterator[TimedFrame]:
    """A chunk's frames, spread over the time in which it was spoken. Times only grow."""
    clips = {clip.file: clip for clip in user}
    latest = -1
    for item in select(inputs, ChunkIn):
        audio = item.media.audio
        clip = clips.get(audio.file) if audio and audio.file else None
        begin = clip.start * 1000 / INPUT_RATE if clip else max(0.0, item.entry.at - start)
        lasts = clip.samples * 1000 / INPUT_RATE if clip else 0.0
        names = [frame.file for frame in item.media.frames if frame.file is not None]
        for place, file in enumerate(names):
            latest = max(latest + 1, round(begin + lasts * place / len(names)))
            yield TimedFrame(latest, file)


def place_captured(sounds: Sequence[TimedSound], rate: int) -> list[PlacedClip]:
    """Place a microphone's chunks: each one ended when it arrived, or earlier.

    A network can delay a chunk but not hurry it, so a late chunk moves forward until the chunks
    after it fit. Chunks that arrived faster than real time follow each other without a gap.
    """
    clips: list[PlacedClip] = []
    for sound, end in zip(sounds, _latest_ends(sounds, rate), strict=True):
        start = end - sound.samples
        if clips and start - clips[-1].stop <= JITTER_S * rate:
            start = clips[-1].stop
        clips.append(PlacedClip(max(start, 0), sound.file, sound.samples))
    return clips


def _latest_ends(sounds: Sequence[TimedSound], rate: int) -> list[int]:
    """The latest sample at which each sound can have ended, given the sounds after it."""
    ends: list[int] = []
    limit: int | None = None
    for sound in reversed(sounds):
        arrival = round(sound.at_ms * rate / 1000)
        end = arrival if limit is None else min(arrival, limit)
        ends.append(end)
        limit = end - sound.samples
    return ends[::-1]


def place_played(
    sounds: Iterable[TimedSound], cutoffs: Iterable[float], rate: int
) -> list[PlacedClip]:
    """Place what a client plays: each sound when it arrives, or after the one that still plays.

    `cutoffs`: the times (ms) at which the client drops unplayed sound. Both are in order.
    """
    clips: list[PlacedClip] = []
    free_from = 0
    for at_ms, sound in merge(
        ((cutoff, None) for cutoff in cutoffs),
        ((sound.at_ms, sound) for sound in sounds),
        key=lambda event: event[0],
    ):
        now = max(0, round(at_ms * rate / 1000))
        if sound is None:
            clips = _cut_off(clips, now)
            free_from = min(free_from, now)
            continue
        start = max(free_from, now)
        clips.append(PlacedClip(start, sound.file, sound.samples))
        free_from = start + sound.samples
    return clips


def _cut_off(clips: list[PlacedClip], now: int) -> list[PlacedClip]:
    while clips and clips[-1].start >= now:
        clips.pop()
    if clips and clips[-1].stop > now:
        clips[-1] = replace(clips[-1], samples=now - clips[-1].start)
    return clips


def lay_out_captions(texts: Sequence[SpokenText], end_ms: float) -> list[Caption]:
    """A turn's words fill a caption one unit after the other; the last caption stays for a while.

    No caption is shown after `end_ms`.
    """
    shown: list[Caption] = []
    text, turn_over = "", True
    for words in texts:
        if turn_over or len(text) + len(words.text) > _CAPTION_CHARS:
            text = ""
        text, turn_over = text + words.text, words.ends_turn
        start = round(words.at_ms)
        if shown:
            shown[-1] = replace(shown[-1], end_ms=min(shown[-1].end_ms, start))
        end = round(min(words.until_ms + _CAPTION_STAYS_MS, end_ms))
        shown.append(Caption(start, end, text.strip()))
    return [caption for caption in shown if caption.text and caption.end_ms > caption.start_ms]
