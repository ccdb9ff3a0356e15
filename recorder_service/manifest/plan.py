"""From a journal to what is to be heard and seen of a session, on one clock: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge

from antiphon.recorder_service.journal.journal import Line, Placed, Side
from antiphon.recorder_service.journal.state import JournalState
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.states import SessionKind


@dataclass(frozen=True, slots=True)
class TimedFrame:
    """A frame's file, shown from `at_ms` on."""

    at_ms: int
    file: str


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Clips of the user (16 kHz) and the model (24 kHz), pictures and captions.

    Their clock begins `lead_ms` before the session: a chat's user has spoken before the request.
    """

    lead_ms: float
    user: list[PlacedClip]
    model: list[PlacedClip]
    pictures: list[TimedFrame]
    captions: list[Caption]

    @property
    def seconds(self) -> float:
        """Until the last sound has been heard."""
        return _seconds(self.user, self.model)


def plan_replay(
    kind: SessionKind, tally: JournalState, placed: Mapping[Side, Placed]
) -> ReplayPlan:
    """The score of a recorded session; nothing in it where nothing was heard."""
    start, inputs, outputs = tally.start_ms, placed["in"], placed["out"]
    if kind is SessionKind.CHAT:
        return _chat(tally.prepare, outputs, start)
    spoken = [_sound(line, line[name], start) for line, name in _user_sounds(inputs, kind)]
    user = place_captured(spoken, INPUT_RATE)
    model = place_played(
        _model_sounds(outputs, start), _hushes(inputs, outputs, start), OUTPUT_RATE
    )
    if not kind.is_duplex:
        return ReplayPlan(0.0, user, model, [], [])
    words = captions(list(_words(outputs, model, start)), _seconds(user, model) * 1000)
    return ReplayPlan(0.0, user, model, list(_pictures(inputs, user, start)), words)


def _seconds(user: list[PlacedClip], model: list[PlacedClip]) -> float:
    users = max((clip.stop for clip in user), default=0) / INPUT_RATE
    models = max((clip.stop for clip in model), default=0) / OUTPUT_RATE
    return max(users, models)


def _chat(request: Line | None, outputs: Placed, start: float) -> ReplayPlan:
    asked = list(_asked(request, start)) if request else []
    lead_ms = sum(sound.samples for sound in asked) * 1000 / INPUT_RATE
    user = place_captured(
        [TimedSound(sound.at_ms + lead_ms, sound.file, sound.samples) for sound in asked],
        INPUT_RATE,
    )
    model = place_played(_model_sounds(outputs, start - lead_ms), (), OUTPUT_RATE)
    return ReplayPlan(lead_ms, user, model, [], [])


def _asked(request: Line, start: float) -> Iterator[TimedSound]:
    """What the user's messages say aloud."""
    for message in request["content"]:
        for part in message["parts"]:
            saved = request["media"][part["blob"]] if "blob" in part else {}
            if message["role"] == "user" and "samples" in saved:
                yield TimedSound(request["at"] - start, saved["file"], saved["samples"])


def _sound(line: Line, file: str, start: float) -> TimedSound:
    return TimedSound(line["at"] - start, file, line["samples"])


def _user_sounds(inputs: Placed, kind: SessionKind) -> Iterator[tuple[Line, str]]:
    name = "user_audio" if kind.is_duplex else "piece"
    return ((line, name) for _, line in inputs if line["type"] == "chunk" and name in line)


def _received(outputs: Placed, start: float) -> Iterator[tuple[float, Line]]:
    """When each entry came: in the stream's order, though a second worker's clock may be behind."""
    latest = float("-inf")
    for _, line in outputs:
        latest = max(latest, line["at"] - start)
        yield latest, line


def _model_sounds(outputs: Placed, start: float) -> Iterator[TimedSound]:
    for at_ms, line in _received(outputs, start):
        file = line.get("ai_audio") or line.get("piece")
        if file is not None:
            yield TimedSound(at_ms, file, line["samples"])


def _hushes(inputs: Placed, outputs: Placed, start: float) -> list[float]:
    """When the client fell silent: it wanted to be listened to, or the model broke off mid-turn."""
    times = [line["at"] - start for line in _interruptions(inputs)]
    mid_turn = False
    for at_ms, line in _received(outputs, start):
        if line["type"] != "result":
            continue
        if line["is_listen"] and mid_turn:
            times.append(at_ms)
        mid_turn = not line["is_listen"] and not line["end_of_turn"]
    return sorted(times)


def _interruptions(inputs: Placed) -> Iterator[Line]:
    """A half-duplex `break`, and every chunk from which on the model is forced to listen."""
    forced = False
    for _, line in inputs:
        if line["type"] == "break":
            yield line
        elif line["type"] == "chunk":
            if line["force_listen"] and not forced:
                yield line
            forced = line["force_listen"]


def _words(outputs: Placed, model: list[PlacedClip], start: float) -> Iterator[SpokenText]:
    """Each unit's words when they are heard; what was cut off before it was heard is not said."""
    heard = {clip.file: clip for clip in model}
    for _, line in outputs:
        if line["type"] != "result" or line["is_listen"] or not line["text"]:
            continue
        at = until = line["at"] - start
        if "ai_audio" in line:
            clip = heard.get(line["ai_audio"])
            if clip is None:
                continue
            at, until = (sample * 1000 / OUTPUT_RATE for sample in (clip.start, clip.stop))
        yield SpokenText(at, until, line["text"], line["end_of_turn"])


def _pictures(inputs: Placed, user: list[PlacedClip], start: float) -> Iterator[TimedFrame]:
    """A chunk's frames spread over the time in which it was spoken; times only grow."""
    heard = {clip.file: clip for clip in user}
    latest = -1
    for _, line in inputs:
        if line["type"] != "chunk":
            continue
        clip, frames = heard.get(line.get("user_audio", "")), line["user_frames"]
        begin = clip.start * 1000 / INPUT_RATE if clip else max(0.0, line["at"] - start)
        lasts = clip.samples * 1000 / INPUT_RATE if clip else 0.0
        for place, file in enumerate(frames):
            latest = max(latest + 1, round(begin + lasts * place / len(frames)))
            yield TimedFrame(latest, file)


JITTER_S = 0.2
"""A chunk that comes this much later than it should still follows the one before without a gap."""


@dataclass(frozen=True, slots=True)
class TimedSound:
    """`samples` of sound in a file, which came `at_ms` after the session's start."""

    at_ms: float
    file: str
    samples: int


@dataclass(frozen=True, slots=True)
class PlacedClip:
    """The first `samples` of a file, to be heard from sample `start` of its channel on."""

    start: int
    file: str
    samples: int

    @property
    def stop(self) -> int:
        """The sample after its last."""
        return self.start + self.samples


def place_captured(
    sounds: Sequence[TimedSound], rate: int, not_before: int | None = 0
) -> list[PlacedClip]:
    """Where a microphone's chunks lie: each one ended when it came, or earlier.

    A network may delay a chunk but cannot hurry it, so a late one is moved ahead until those after
    it fit; what came faster than it can have been spoken lies end to end. Nothing lies before
    `not_before`.
    """
    clips: list[PlacedClip] = []
    for sound, end in zip(sounds, _latest_ends(sounds, rate), strict=True):
        start = end - sound.samples
        if clips and start - clips[-1].stop <= JITTER_S * rate:
            start = clips[-1].stop
        if not_before is not None:
            start = max(start, not_before)
        clips.append(PlacedClip(start, sound.file, sound.samples))
    return clips


def _latest_ends(sounds: Sequence[TimedSound], rate: int) -> list[int]:
    """The latest sample at which each can have ended, seen from those that came after it."""
    ends: list[int] = []
    limit: int | None = None
    for sound in reversed(sounds):
        came = round(sound.at_ms * rate / 1000)
        end = came if limit is None else min(came, limit)
        ends.append(end)
        limit = end - sound.samples
    return ends[::-1]


def place_played(
    sounds: Iterable[TimedSound], hushes: Iterable[float], rate: int
) -> list[PlacedClip]:
    """What a client plays: each sound when it comes, or after what still plays.

    `hushes`: the times (ms) at which it drops whatever has not been heard yet. Both in order.
    """
    clips: list[PlacedClip] = []
    pen = 0
    for at_ms, sound in merge(
        ((hush, None) for hush in hushes),
        ((sound.at_ms, sound) for sound in sounds),
        key=lambda event: event[0],
    ):
        now = max(0, round(at_ms * rate / 1000))
        if sound is None:
            clips = _cut(clips, now)
            pen = min(pen, now)
            continue
        start = max(pen, now)
        clips.append(PlacedClip(start, sound.file, sound.samples))
        pen = start + sound.samples
    return clips


def _cut(clips: list[PlacedClip], now: int) -> list[PlacedClip]:
    """Without what would be heard from `now` on."""
    while clips and clips[-1].start >= now:
        clips.pop()
    if clips and clips[-1].stop > now:
        clips[-1] = replace(clips[-1], samples=now - clips[-1].start)
    return clips


_LINE_CHARS = 84
"""About two lines of a subtitle; a turn that says more begins anew."""

_STAYS_MS = 1500.0


@dataclass(frozen=True, slots=True)
class SpokenText:
    """What a unit says, from `at_ms` until `until_ms`; `ends_turn`: nothing follows it."""

    at_ms: float
    until_ms: float
    text: str
    ends_turn: bool


@dataclass(frozen=True, slots=True)
class Caption:
    """Shown from `start_ms` until `end_ms`."""

    start_ms: int
    end_ms: int
    text: str


def captions(said: Sequence[SpokenText], end_ms: float) -> list[Caption]:
    """A turn's words grow until they fill the line; the last of them stay for a while.

    Nothing is shown after `end_ms`.
    """
    shown: list[Caption] = []
    text, turn_over = "", True
    for words in said:
        if turn_over or len(text) + len(words.text) > _LINE_CHARS:
            text = ""
        text, turn_over = text + words.text, words.ends_turn
        start = round(words.at_ms)
        if shown:
            shown[-1] = replace(shown[-1], end_ms=min(shown[-1].end_ms, start))
        end = round(min(words.until_ms + _STAYS_MS, end_ms))
        shown.append(Caption(start, end, text.strip()))
    return [caption for caption in shown if caption.text and caption.end_ms > caption.start_ms]
