"""Removes jumps of Redis' clock from the times of a journal's entries. Pure.

Each entry states by how much its writer's clock was set (`clock_step`), so the times of one epoch
never jump. Two writers notice a jump at different moments, up to some seconds apart, and the first
times of an epoch can be wrong by the whole jump until then. So each epoch is shifted as a whole:
a worker's epoch by the inputs that it answers, a later edge's epoch by a worker that read the inputs
of both edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntries,
    JournalEntry,
)
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import (
    ChatIn,
    ChunkIn,
    GeneratingOut,
    PauseIn,
    ResultOut,
    ResumeIn,
    StreamEntry,
    VadOut,
)

_LONGEST_GAP_MS = 60_000.0
"""The longest gap when the edge or the worker changes, and the longest wait for a slow answer."""

_LONGEST_WAIT_MS = 5_000.0
"""The longest wait for a prompt answer, without the work of the engine: at least one in an epoch is
faster. Clocks of writers that differ by less are taken as equal."""

_STEP_BACK_MS = 2_000.0
"""An input of a new edge may be this much before the last one of the old edge."""

_LONGEST_CHUNK_MS = 10_000.0
"""What a missing entry may have lasted."""

_Prompt = ResultOut | VadOut | GeneratingOut
"""Outputs that follow the input that they name within the work of the engine."""

_Item = JournalEntry[StreamEntry]


@dataclass(slots=True)
class _ShortestWaits:
    """The shortest waits for the outputs of one worker's epoch that answer one edge's epoch.

    `prompt_by_redis` uses the times as stamped; the others use times without steps.
    """

    prompt_by_redis: float = float("inf")
    prompt: float = float("inf")
    any: float = float("inf")


@dataclass(slots=True)
class _Epochs:
    """The epochs of both streams, and by how much each one's times without steps are ahead."""

    contents: JournalContents
    inputs: dict[int, _Item] = field(init=False)
    waits: dict[tuple[int, int], _ShortestWaits] = field(default_factory=dict)
    ahead: dict[tuple[str, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = {item.position.n: item for item in self.contents.inputs}
        for item in self.contents.outputs:
            answered = self._answered(item)
            if answered is not None:
                self._add_wait(item, answered)
        self._align_inputs()
        self._align_outputs()

    def jump(self, item: _Item) -> float:
        """By how many milliseconds the time of an entry is ahead of the steady time."""
        return self.ahead[item.side, item.position.epoch] + item.entry.clock_step

    def _answered(self, item: _Item) -> _Item | None:
        """The input that an output answers, if it is recorded. Outputs of a chat name none."""
        n = getattr(item.entry, "input_n", None)
        if n is None and self.contents.inputs and isinstance(self.contents.inputs[0].entry, ChatIn):
            return self.contents.inputs[0]
        return self.inputs.get(n or 0)

    def _add_wait(self, item: _Item, answered: _Item) -> None:
        waits = self.waits.setdefault(
            (item.position.epoch, answered.position.epoch), _ShortestWaits()
        )
        by_redis = item.entry.at - answered.entry.at
        wait = _without_step(item) - _without_step(answered)
        waits.any = min(waits.any, wait)
        if isinstance(item.entry, _Prompt):
            work = item.entry.cost_all_ms if isinstance(item.entry, ResultOut) else 0.0
            waits.prompt = min(waits.prompt, wait - work)
            waits.prompt_by_redis = min(waits.prompt_by_redis, by_redis - work)

    def _align_inputs(self) -> None:
        """The first entry's time counts."""
        previous: _Item | None = None
        pause_ms = 0.0
        for item in self.contents.inputs:
            key = (item.side, item.position.epoch)
            if previous is None:
                self.ahead[key] = -item.entry.clock_step
            elif key not in self.ahead:
                before = self.ahead[previous.side, previous.position.epoch]
                self.ahead[key] = before + self._difference(previous, item, pause_ms)
            previous = item
            match item.entry:
                case PauseIn(timeout_s=timeout_s):
                    pause_ms = timeout_s * 1000
                case ResumeIn():
                    pause_ms = 0.0

    def _difference(self, last: _Item, first: _Item, pause_ms: float) -> float:
        """By how much the clock of an edge's first entry is ahead of that of the edge before it."""
        stamped = last.entry.clock_step - first.entry.clock_step
        measured = self._measured_difference(last.position.epoch, first.position.epoch)
        if measured is not None:
            return measured if abs(measured - stamped) > _LONGEST_WAIT_MS else stamped
        gap = first.entry.at - last.entry.at
        lost_ms = (first.position.n - last.position.n - 1) * _LONGEST_CHUNK_MS
        if -_STEP_BACK_MS <= gap <= _LONGEST_GAP_MS + pause_ms + lost_ms:
            return stamped
        return stamped + gap - _sound_ms(first)

    def _measured_difference(self, old: int, new: int) -> float | None:
        """As a worker measured it that read the inputs of both edges at once, if any did."""
        for (worker, edge), waits in self.waits.items():
            after = self.waits.get((worker, new))
            live = 0 <= waits.prompt_by_redis <= _LONGEST_WAIT_MS
            if edge == old and live and after is not None and after.prompt < float("inf"):
                return waits.prompt - after.prompt
        return None

    def _align_outputs(self) -> None:
        previous: _Item | None = None
        for epoch in dict.fromkeys(item.position.epoch for item in self.contents.outputs):
            items = [item for item in self.contents.outputs if item.position.epoch == epoch]
            self.ahead["out", epoch] = self._ahead_of_inputs(epoch, items, previous)
            previous = items[-1]

    def _ahead_of_inputs(self, epoch: int, items: list[_Item], previous: _Item | None) -> float:
        """As the stamps of a worker and the edge say, unless an answer were too early or too late."""
        for item in items:
            answered = self._answered(item)
            if answered is not None:
                ahead = self.jump(answered) - item.entry.clock_step
                break
        else:
            return self._ahead_of_entry(
                items[0], previous or next(iter(self.contents.inputs), None)
            )
        waits = [
            (found, self.ahead["in", edge])
            for (worker, edge), found in self.waits.items()
            if worker == epoch
        ]
        shortest = min(found.any + edge_ahead for found, edge_ahead in waits) - ahead
        prompt = min(found.prompt + edge_ahead for found, edge_ahead in waits) - ahead
        if shortest < 0 or (prompt == float("inf") and shortest > _LONGEST_GAP_MS):
            return ahead + shortest
        return ahead + prompt if _LONGEST_WAIT_MS < prompt < float("inf") else ahead

    def _ahead_of_entry(self, first: _Item, reference: _Item | None) -> float:
        """An epoch that answers nothing follows the entry before it."""
        if reference is None:
            return -first.entry.clock_step
        ahead = self.jump(reference) - first.entry.clock_step
        gap = first.entry.at - reference.entry.at
        return ahead if 0 <= gap <= _LONGEST_GAP_MS else ahead + gap


def without_clock_jumps(contents: JournalContents) -> JournalContents:
    """The entries with the times that a clock without jumps gives; the same object if it made none.

    The time of the first entry counts. A gap that cannot be real shrinks to the length of the sound
    that was recorded in it.
    """
    epochs = _Epochs(contents)
    jumps = {side: [epochs.jump(item) for item in contents.of(side)] for side in SIDES}
    if not any(jumps["in"]) and not any(jumps["out"]):
        return contents
    of_input = {
        item.position.n: jump for item, jump in zip(contents.inputs, jumps["in"], strict=True)
    }
    return replace(
        contents,
        inputs=_corrected(contents.inputs, jumps["in"], of_input),
        outputs=_corrected(contents.outputs, jumps["out"], of_input),
    )


def _without_step(item: _Item) -> float:
    return item.entry.at - item.entry.clock_step


def _sound_ms(item: _Item) -> float:
    audio = item.media.audio
    if not isinstance(item.entry, ChunkIn) or audio is None or audio.samples is None:
        return 0.0
    return audio.samples * 1000 / INPUT_RATE


def _corrected(
    items: JournalEntries, jumps: Iterable[float], of_input: Mapping[int, float]
) -> JournalEntries:
    return [_moved(item, jump, of_input) for item, jump in zip(items, jumps, strict=True)]


def _moved(item: _Item, jump: float, of_input: Mapping[int, float]) -> _Item:
    moved: dict[str, Any] = {"at": round(item.entry.at - jump, 3)}
    if isinstance(item.entry, ResultOut):
        sent = of_input.get(item.entry.input_n, 0.0)
        moved["received_at"] = round(item.entry.received_at - sent, 3)
        moved["read_at"] = round(item.entry.read_at - jump, 3)
    return replace(item, entry=replace(item.entry, **moved))
