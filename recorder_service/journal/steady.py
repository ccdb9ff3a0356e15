"""Removes jumps of Redis' clock from the times of a journal's entries. Pure.

Every writer stamps its entries with Redis' clock and notices a jump of that clock at another moment,
up to half a minute later. The order of a stream is always right. The input stream is steadied by
its order and its sound, and the output stream by the inputs that it answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntries,
    JournalEntry,
    select,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import (
    ChunkIn,
    GeneratingOut,
    PauseIn,
    PreparedOut,
    ResultOut,
    ResumeIn,
    StreamEntry,
    VadOut,
)

LONGEST_SILENCE_MS = 600_000.0
"""The longest gap between two entries of a stream; a pause adds its timeout. A longer gap, or a
longer wait for an answer, is a jump of the clock."""

_LONGEST_UNIT_MS = 120_000.0
"""The longest wait for the result of a duplex chunk, with a change of workers."""

_STEP_BACK_MS = 2_000.0
"""The clocks of two writers may differ by this much."""

_LATE_END_MS = 10_000.0
"""Entries may follow a session's end by this much: a worker publishes its last unit."""

_LONGEST_CHUNK_MS = 10_000.0
"""What a missing entry may have lasted."""

_Anchor = PreparedOut | ResultOut | VadOut | GeneratingOut
"""Outputs that follow soon after the input that they name."""


def without_clock_jumps(contents: JournalContents) -> JournalContents:
    """The entries with the times that a clock without jumps gives; the same object if it made none.

    The time of the first entry counts. A gap that cannot be real shrinks to the length of the sound
    that was recorded in it.
    """
    inputs = list(_input_jumps(contents.inputs))
    asked = {
        item.position.n: item.entry.at - jump
        for item, jump in zip(contents.inputs, inputs, strict=True)
    }
    outputs = list(_output_jumps(contents, asked))
    if not any(inputs) and not any(outputs):
        return contents
    of_input = {
        item.position.n: jump for item, jump in zip(contents.inputs, inputs, strict=True) if jump
    }
    return replace(
        contents,
        inputs=_corrected(contents.inputs, inputs, of_input),
        outputs=_corrected(contents.outputs, outputs, of_input),
    )


def steady_end_ms(at: int | None, recorded: JournalContents, steady: JournalContents) -> float:
    """When a session ended on the time line of its `steady` entries.

    `at` is the time in Redis, `recorded` the entries with Redis' times.
    """
    times = [item.entry.at for side in SIDES for item in steady.of(side)]
    if at is None or not times:
        return max(times, default=float(at or 0.0))
    latest = max(times)
    jumps = [
        recorded.of(side)[-1].entry.at - steady.of(side)[-1].entry.at
        for side in SIDES
        if recorded.of(side)
    ]
    end = min((at - jump for jump in jumps), key=lambda end: abs(end - latest))
    if any(jumps):
        end = max(end, latest)
    plausible = -_LATE_END_MS <= end - latest <= _longest_gap_ms(recorded.inputs)
    return end if plausible else latest


def _input_jumps(inputs: JournalEntries) -> Iterator[float]:
    """By how many milliseconds each input's time is ahead of the steady time."""
    jump, pause_ms = 0.0, 0.0
    previous: JournalEntry[StreamEntry] | None = None
    for item in inputs:
        if previous is not None:
            gap = item.entry.at - previous.entry.at
            lost_ms = (item.position.n - previous.position.n - 1) * _LONGEST_CHUNK_MS
            if not -_STEP_BACK_MS <= gap <= LONGEST_SILENCE_MS + pause_ms + lost_ms:
                jump += gap - _sound_ms(item)
        yield jump
        previous = item
        match item.entry:
            case PauseIn(timeout_s=timeout_s):
                pause_ms = timeout_s * 1000
            case ResumeIn():
                pause_ms = 0.0


def _output_jumps(contents: JournalContents, asked: Mapping[int, float]) -> Iterator[float]:
    """The same for each output. `asked`: the steady times of the inputs by number."""
    longest = _longest_gap_ms(contents.inputs)
    latest = min(asked.values(), default=None)
    jump, wait = 0.0, 0.0
    for item, following in zip(contents.outputs, _next_asked(contents.outputs, asked), strict=True):
        stamped = at = item.entry.at - jump
        answered = _answered(item, asked)
        if answered is not None:
            limit = _LONGEST_UNIT_MS if isinstance(item.entry, ResultOut) else longest
            if -_STEP_BACK_MS <= at - answered <= limit:
                wait = at - answered
            else:
                at = max(answered + wait, answered if latest is None else latest)
        elif latest is not None:
            limit = max(latest, following) + longest
            at = at if latest - _STEP_BACK_MS <= at <= limit else latest
        latest = at if latest is None else max(latest, at)
        jump += stamped - at
        yield jump


def _answered(item: JournalEntry[StreamEntry], asked: Mapping[int, float]) -> float | None:
    return asked.get(item.entry.input_n) if isinstance(item.entry, _Anchor) else None


def _next_asked(outputs: JournalEntries, asked: Mapping[int, float]) -> list[float]:
    """For each output, when the input was sent that it, or the next one that names any, answers."""
    following = max(asked.values(), default=float("-inf"))
    found: list[float] = []
    for item in reversed(outputs):
        answered = _answered(item, asked)
        following = following if answered is None else answered
        found.append(following)
    return found[::-1]


def _longest_gap_ms(inputs: JournalEntries) -> float:
    pauses = (item.entry.timeout_s * 1000 for item in select(inputs, PauseIn))
    return LONGEST_SILENCE_MS + max(pauses, default=0.0)


def _sound_ms(item: JournalEntry[StreamEntry]) -> float:
    audio = item.media.audio
    if not isinstance(item.entry, ChunkIn) or audio is None or audio.samples is None:
        return 0.0
    return audio.samples * 1000 / INPUT_RATE


def _corrected(
    items: JournalEntries, jumps: list[float], of_input: Mapping[int, float]
) -> JournalEntries:
    return [_moved(item, jump, of_input) for item, jump in zip(items, jumps, strict=True)]


def _moved(
    item: JournalEntry[StreamEntry], jump: float, of_input: Mapping[int, float]
) -> JournalEntry[StreamEntry]:
    moved: dict[str, Any] = {"at": round(item.entry.at - jump, 3)}
    if isinstance(item.entry, ResultOut):
        sent = of_input.get(item.entry.input_n, 0.0)
        moved["received_at"] = round(item.entry.received_at - sent, 3)
        moved["read_at"] = round(item.entry.read_at - jump, 3)
    return replace(item, entry=replace(item.entry, **moved))
