"""From a journal to what is to be heard and seen of a session, on one clock: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from antiphon.recorder_service.captions import Caption, Words, captions
from antiphon.recorder_service.placing import Clip, Sound, captured, played
from antiphon.recorder_service.tally import Tally
from antiphon.recorder_service.timeline import Line, Placed, Side
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.states import SessionKind


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame's file, shown from `at_ms` on."""

    at_ms: int
    file: str


@dataclass(frozen=True, slots=True)
class Score:
    """Clips of the user (16 kHz) and the model (24 kHz), pictures and captions.

    Their clock begins `lead_ms` before the session: a chat's user has spoken before the request.
    """

    lead_ms: float
    user: list[Clip]
    model: list[Clip]
    pictures: list[Picture]
    captions: list[Caption]

    @property
    def seconds(self) -> float:
        """Until the last sound has been heard."""
        return _seconds(self.user, self.model)


def score_of(kind: SessionKind, tally: Tally, placed: Mapping[Side, Placed]) -> Score:
    """The score of a recorded session; nothing in it where nothing was heard."""
    start, inputs, outputs = tally.start_ms, placed["in"], placed["out"]
    if kind is SessionKind.CHAT:
        return _chat(tally.prepare, outputs, start)
    spoken = [_sound(line, line[name], start) for line, name in _user_sounds(inputs, kind)]
    user = captured(spoken, INPUT_RATE)
    model = played(_model_sounds(outputs, start), _hushes(inputs, outputs, start), OUTPUT_RATE)
    if not kind.is_duplex:
        return Score(0.0, user, model, [], [])
    words = captions(list(_words(outputs, model, start)), _seconds(user, model) * 1000)
    return Score(0.0, user, model, list(_pictures(inputs, user, start)), words)


def _seconds(user: list[Clip], model: list[Clip]) -> float:
    users = max((clip.stop for clip in user), default=0) / INPUT_RATE
    models = max((clip.stop for clip in model), default=0) / OUTPUT_RATE
    return max(users, models)


def _chat(request: Line | None, outputs: Placed, start: float) -> Score:
    asked = list(_asked(request, start)) if request else []
    lead_ms = sum(sound.samples for sound in asked) * 1000 / INPUT_RATE
    user = captured(
        [Sound(sound.at_ms + lead_ms, sound.file, sound.samples) for sound in asked], INPUT_RATE
    )
    model = played(_model_sounds(outputs, start - lead_ms), (), OUTPUT_RATE)
    return Score(lead_ms, user, model, [], [])


def _asked(request: Line, start: float) -> Iterator[Sound]:
    """What the user's messages say aloud."""
    for message in request["content"]:
        for part in message["parts"]:
            saved = request["media"][part["blob"]] if "blob" in part else {}
            if message["role"] == "user" and "samples" in saved:
                yield Sound(request["at"] - start, saved["file"], saved["samples"])


def _sound(line: Line, file: str, start: float) -> Sound:
    return Sound(line["at"] - start, file, line["samples"])


def _user_sounds(inputs: Placed, kind: SessionKind) -> Iterator[tuple[Line, str]]:
    name = "user_audio" if kind.is_duplex else "piece"
    return ((line, name) for _, line in inputs if line["type"] == "chunk" and name in line)


def _received(outputs: Placed, start: float) -> Iterator[tuple[float, Line]]:
    """When each entry came: in the stream's order, though a second worker's clock may be behind."""
    latest = float("-inf")
    for _, line in outputs:
        latest = max(latest, line["at"] - start)
        yield latest, line


def _model_sounds(outputs: Placed, start: float) -> Iterator[Sound]:
    for at_ms, line in _received(outputs, start):
        file = line.get("ai_audio") or line.get("piece")
        if file is not None:
            yield Sound(at_ms, file, line["samples"])


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


def _words(outputs: Placed, model: list[Clip], start: float) -> Iterator[Words]:
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
        yield Words(at, until, line["text"], line["end_of_turn"])


def _pictures(inputs: Placed, user: list[Clip], start: float) -> Iterator[Picture]:
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
            yield Picture(latest, file)
