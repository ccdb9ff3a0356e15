"""Removes jumps of Redis' clock from the times of a journal's entries. Pure.

Each entry has two times: `at` by Redis, which all hosts share but which may jump, and `host_at` by its
writer's host, which does not jump but may differ between hosts. Within an epoch, which one process writes,
the host's clock counts. Between two epochs Redis' clock says by how much their hosts differ, unless that is
so much that Redis' clock has jumped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntries,
    JournalEntry,
)
from antiphon.shared_schemas.entries import ChatIn, PauseIn, ResultOut, ResumeIn, StreamEntry

_MOST_HOSTS_DIFFER_MS = 2_000.0
"""The clocks of hosts that NTP sets differ by less."""

_LONGEST_GAP_MS = 60_000.0
"""The longest silence when the edge or the worker changes, and the longest wait for an answer."""

_LONGEST_CHUNK_MS = 10_000.0
"""What a missing entry may have lasted."""

_ROUNDED_MS = 0.01

_Item = JournalEntry[StreamEntry]


def without_clock_jumps(contents: JournalContents) -> JournalContents:
    """The entries with the times that a clock without jumps gives; the same object if it made none.

    The time of the first entry counts.
    """
    jumps = _jumps(contents)
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


def _jumps(contents: JournalContents) -> dict[str, list[float]]:
    """By how many milliseconds the time `at` of each entry is ahead of the steady time."""
    first = next(iter((*contents.inputs, *contents.outputs)), None)
    if (
        first is None or not first.entry.host_at
    ):  # entries that were not read from a stream have no times
        return {side: [0.0] * len(contents.of(side)) for side in SIDES}
    base = _offset(first)
    ahead = {**_of_inputs(contents, base), **_of_outputs(contents, base)}
    return {
        side: [_rounded(_offset(item) - ahead[_epoch(item)]) for item in contents.of(side)]
        for side in SIDES
    }


def _of_inputs(contents: JournalContents, base: float) -> dict[tuple[str, int], float]:
    """By how much Redis' clock is ahead of the host's, for each edge's epoch."""
    ahead: dict[tuple[str, int], float] = {}
    previous: _Item | None = None
    longest_ms = _LONGEST_GAP_MS
    for item in contents.inputs:
        if previous is None:
            ahead[_epoch(item)] = base
        elif _epoch(item) not in ahead:
            lost_ms = (item.position.n - previous.position.n - 1) * _LONGEST_CHUNK_MS
            before = previous.entry.host_at + ahead[_epoch(previous)]
            gap = item.entry.host_at - before
            ahead[_epoch(item)] = _chosen(item, base, gap, longest_ms + lost_ms)
        previous = item
        if isinstance(item.entry, PauseIn):
            longest_ms = _LONGEST_GAP_MS + item.entry.timeout_s * 1000
        elif isinstance(item.entry, ResumeIn):
            longest_ms = _LONGEST_GAP_MS
    return ahead


def _of_outputs(contents: JournalContents, base: float) -> dict[tuple[str, int], float]:
    """The same for each worker's epoch, by the inputs that it answers."""
    inputs = _of_inputs(contents, base)
    sent = {item.position.n: item.entry.host_at + inputs[_epoch(item)] for item in contents.inputs}
    is_chat = bool(contents.inputs) and isinstance(contents.inputs[0].entry, ChatIn)
    ahead: dict[tuple[str, int], float] = {}
    epochs: dict[tuple[str, int], list[_Item]] = {}
    for item in contents.outputs:
        epochs.setdefault(_epoch(item), []).append(item)
    until = min(sent.values(), default=None)
    for epoch, items in epochs.items():
        waits = [
            item.entry.host_at - sent[n]
            for item in items
            if (n := 1 if is_chat else getattr(item.entry, "input_n", None)) in sent
        ]
        if not waits and until is not None:
            waits = [items[0].entry.host_at - until]
        shortest = min(waits, default=-base)
        ahead[epoch] = max(_chosen(items[0], base, shortest, _LONGEST_GAP_MS), -shortest)
        until = items[-1].entry.host_at + ahead[epoch]
    return ahead


def _chosen(first: _Item, base: float, gap: float, longest_ms: float) -> float:
    """The offset of the epoch that begins with `first`. Its `host_at` is `gap` after what precedes it.

    It is the measured one, unless a jump explains that better: then the hosts' clocks are the same.
    """
    measured = _offset(first)
    if abs(measured - base) <= _MOST_HOSTS_DIFFER_MS:
        return measured
    same_clock, same_redis = gap + base, gap + measured
    wrong_host = not 0 <= same_clock <= longest_ms and 0 <= same_redis <= longest_ms
    return measured if wrong_host else base


def _offset(item: _Item) -> float:
    return item.entry.at - item.entry.host_at


def _rounded(jump_ms: float) -> float:
    """Without what the rounding of times leaves."""
    return jump_ms if abs(jump_ms) > _ROUNDED_MS else 0.0


def _epoch(item: _Item) -> tuple[str, int]:
    return item.side, item.position.epoch


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
    return replace(item, entry=structs.replace(item.entry, **moved))
