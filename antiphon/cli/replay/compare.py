"""Compares two runs of one conversation: decisions, words and latency. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from antiphon.cli.conversation.latency import LatencySpread

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """One unit, or one turn, of one run. `speaks` is its decision, `ms` its duration if known."""

    speaks: bool
    text: str
    ms: float | None


@dataclass(frozen=True, slots=True)
class OutcomePair:
    """The same unit or turn in both runs, started at `at_s`; None if a run has none."""

    index: int
    at_s: float
    before: ReplayOutcome | None
    after: ReplayOutcome | None

    @property
    def agrees(self) -> bool:
        """True if both runs have it, and both spoke or both listened."""
        if self.before is None or self.after is None:
            return False
        return self.before.speaks == self.after.speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much a run may differ: shares from 0 to 1, and the factor for the median duration.

    A difference of less than `slack_ms` counts as random.
    """

    decisions: float = 0.9
    text: float = 0.8
    slower: float = 2.0
    slack_ms: float = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result; `reasons` is empty if everything is within the tolerance."""

    units: int
    decisions: float
    text: float
    before: LatencySpread | None
    after: LatencySpread | None
    reasons: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return bool(self.reasons)


def compare(pairs: Sequence[OutcomePair], tolerance: Tolerance) -> Comparison:
    """Judge the second run by the first.

    Units without an answer in the first run count for the words only: speech may arrive later.
    """
    judged = [pair for pair in pairs if pair.before is not None]
    decisions = sum(pair.agrees for pair in judged) / len(judged) if judged else 1.0
    text = similarity(*(_speech(run) for run in _runs(pairs)))
    before, after = (
        LatencySpread.of([unit.ms for unit in run if unit.ms is not None]) for run in _runs(judged)
    )
    reasons = (
        _below("decisions", decisions, tolerance.decisions),
        _below("text", text, tolerance.text),
        _too_slow(before, after, tolerance),
    )
    return Comparison(
        units=len(judged),
        decisions=decisions,
        text=text,
        before=before,
        after=after,
        reasons=tuple(reason for reason in reasons if reason),
    )


def similarity(one: str, other: str) -> float:
    """Share of words that two texts have in common, in order; 1.0 for two empty texts."""
    words: list[list[str]] = [_WORD.findall(text.casefold()) for text in (one, other)]
    return SequenceMatcher(a=words[0], b=words[1], autojunk=False).ratio()


def _runs(pairs: Sequence[OutcomePair]) -> tuple[list[ReplayOutcome], list[ReplayOutcome]]:
    """The outcomes of both runs."""
    before = [pair.before for pair in pairs if pair.before is not None]
    return before, [pair.after for pair in pairs if pair.after is not None]


def _speech(run: list[ReplayOutcome]) -> str:
    """All speech of a run, joined: a word may be split over two units."""
    return "".join(unit.text for unit in run if unit.speaks)


def _below(name: str, share: float, least: float) -> str:
    return f"{name}: {share:.0%} the same, {least:.0%} are needed" if share < least else ""


def _too_slow(
    before: LatencySpread | None, after: LatencySpread | None, tolerance: Tolerance
) -> str:
    if before is None or after is None:
        return ""
    most = max(before.p50 * tolerance.slower, before.p50 + tolerance.slack_ms)
    if after.p50 <= most:
        return ""
    return f"latency: median {after.p50:.0f} ms, it was {before.p50:.0f} ms ({most:.0f} ms are allowed)"
