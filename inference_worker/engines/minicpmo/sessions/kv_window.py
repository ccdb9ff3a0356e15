"""Tracks the layout of a context and decides what to drop when it grows too long. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions


@dataclass(frozen=True, slots=True)
class ContextUnit:
    """A closed unit: its number of positions and the ordinary words spoken in it."""

    length: int
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowSlide:
    """Move `count` entries from `source` to `target`, then write `refill` from `refill_at` on."""

    source: int
    target: int
    count: int
    refill_at: int = 0
    refill: tuple[int, ...] = ()


@dataclass(slots=True)
class ContextLayout:
    """Prefix, words of dropped units, suffix, units: in this order without gaps.

    The window `basic` keeps the length between two limits; `context` keeps a number of units and the
    words of the older ones.
    """

    options: EngineOptions
    prefix: int = 0
    suffix: tuple[int, ...] = ()
    marker: tuple[int, ...] = ()
    previous: tuple[int, ...] = ()
    units: list[ContextUnit] = field(default_factory=list)

    @property
    def protected(self) -> int:
        """Positions before the first unit."""
        return self.prefix + len(self.previous) + len(self.suffix)

    @property
    def length(self) -> int:
        return self.protected + sum(unit.length for unit in self.units)

    def close(self, unit: ContextUnit) -> WindowSlide | None:
        """Append a unit; returns the change to the cache if the window slides."""
        self.units.append(unit)
        if self.options.window == "basic":
            return self._slide_basic()
        if self.options.window == "context":
            return self._slide_context()
        return None

    def _slide_basic(self) -> WindowSlide | None:
        if self.length <= self.options.basic_high_tokens:
            return None
        before = self.length
        while self.units and self.length > self.options.basic_low_tokens:
            self.units.pop(0)
        gone = before - self.length
        return WindowSlide(self.protected + gone, self.protected, self.length - self.protected)

    def _slide_context(self) -> WindowSlide | None:
        surplus = len(self.units) - self.options.context_max_units
        if surplus <= 0:
            return None
        dropped, self.units = self.units[:surplus], self.units[surplus:]
        source = self.protected + sum(unit.length for unit in dropped)
        changed = self._remember(word for unit in dropped for word in unit.words)
        return WindowSlide(
            source=source,
            target=self.protected,
            count=self.length - self.protected,
            refill_at=self.prefix,
            refill=(*self.previous, *self.suffix) if changed else (),
        )

    def _remember(self, words: Iterable[int]) -> bool:
        """Append words after the marker, keep the newest, and return whether the text changed."""
        content = (*self.previous[len(self.marker) :], *words)
        newest = content[-self.options.context_previous_max_tokens :]
        before = self.previous
        self.previous = (*self.marker, *newest) if newest else ()
        return self.previous != before
