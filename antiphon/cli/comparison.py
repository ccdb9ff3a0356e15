"""Two runs of one conversation side by side: what was decided, what was said, how long it took. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from antiphon.cli.latency import Spread

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Said:
    """One unit, or one turn, of one run. `speaks` is its decision; `ms` what it took, None if unknown."""

    speaks: bool
    text: str
    ms: float | None


@dataclass(frozen=True, slots=True)
class Pair:
    """The same unit or turn in both runs, begun at `at_s`; None where a run has none."""

    index: int
    at_s: float
    before: Said | None
    after: Said | None

    @property
    def agrees(self) -> bool:
        """True when both ran, and both spoke or both listened."""
        if self.before is None or self.after is None:
            return False
        return self.before.speaks == self.after.speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much a run may differ: shares from 0 to 1, the factor by which the median may be slower.

    Units that are slower by less than `slack_ms` count as equally quick: so much is chance.
    """

    decisions: float = 0.9
    text: float = 0.8
    slower: float = 2.0
    slack_ms: float = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the comparison comes to. `reasons` is empty where everything is within the tolerance."""

    units: int
    decisions: float
    text: float
    before: Spread | None
    after: Spread | None
    reasons: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """True when a tolerance was exceeded."""
        return bool(self.reasons)


def compare(pairs: Sequence[Pair], tolerance: Tolerance) -> Verdict:
    """Judge a second run by the first.

    Units that the first run did not answer count for the words only: what is said may come later.
    """
    judged = [pair for pair in pairs if pair.before is not None]
    decisions = sum(pair.agrees for pair in judged) / len(judged) if judged else 1.0
    text = similarity(_spoken(pairs, "before"), _spoken(pairs, "after"))
    before, after = (Spread.of(_times(judged, run)) for run in ("before", "after"))
    reasons = (
        _short_of("decisions", decisions, tolerance.decisions),
        _short_of("text", text, tolerance.text),
        _too_slow(before, after, tolerance),
    )
    return Verdict(
        units=len(judged),
        decisions=decisions,
        text=text,
        before=before,
        after=after,
        reasons=tuple(reason for reason in reasons if reason),
    )


def similarity(one: str, other: str) -> float:
    """Share of words, in order, that two texts have in common: 1.0 for the same, also for none."""
    return SequenceMatcher(a=_words(one), b=_words(other), autojunk=False).ratio()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _spoken(pairs: Sequence[Pair], run: str) -> str:
    """Everything said in a run; pieces of a word may lie in two units."""
    units: list[Said | None] = [getattr(pair, run) for pair in pairs]
    return "".join(said.text for said in units if said is not None and said.speaks)


def _times(pairs: Sequence[Pair], run: str) -> list[float]:
    units: list[Said | None] = [getattr(pair, run) for pair in pairs]
    return [said.ms for said in units if said is not None and said.ms is not None]


def _short_of(what: str, share: float, least: float) -> str:
    return f"{what}: {share:.0%} the same, {least:.0%} are needed" if share < least else ""


def _too_slow(before: Spread | None, after: Spread | None, tolerance: Tolerance) -> str:
    if before is None or after is None:
        return ""
    most = max(before.p50 * tolerance.slower, before.p50 + tolerance.slack_ms)
    if after.p50 <= most:
        return ""
    return f"latency: median {after.p50:.0f} ms, it was {before.p50:.0f} ms ({most:.0f} ms are allowed)"
