"""The report of an evaluation: JSON, and tables for the terminal or for a document."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from antiphon.cli.evaluate.metrics import (
    MEASURES,
    Estimate,
    Measure,
    Observation,
    estimates,
    observations,
)
from antiphon.cli.evaluate.run import Evaluation
from antiphon.cli.evaluate.tracks import Case, Span

ANCHORED = ("l_r", "l_y", "r_r", "r_y", "i_a", "s_bc", "s_vt", "s_nd")

ANCHORS: dict[str, tuple[float, ...]] = {
    "gpt-realtime-1.5": (1.39, 0.42, 1.0, 1.0, 0.14, 0.02, 0.05, 0.10),
    "gpt-realtime-2": (1.44, 0.62, 1.0, 1.0, 0.19, 0.02, 0.06, 0.17),
    "gpt-live-1 (2026-09)": (2.54, 1.08, 0.96, 0.36, 0.22, 0.99, 0.59, 0.46),
    "Gemini Live 3.1 flash": (1.64, 0.82, 0.97, 0.52, 0.10, 0.90, 0.51, 0.27),
    "Grok think-fast 1.0": (1.21, 1.37, 1.0, 0.94, 0.20, 0.66, 0.60, 0.28),
    "cascade": (4.24, 0.87, 0.79, 0.99, 0.64, 0.67, 0.49, 0.58),
}
"""Published by tau-voice, in the order of ANCHORED. Its I_A has no pauses within a sentence."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case and what it says."""

    case: Case
    observations: tuple[Observation, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.fault for one in self.observations if one.fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results, and what was evaluated."""

    about: dict[str, Any]
    results: tuple[CaseResult, ...]
    estimates: dict[str, Estimate]

    @classmethod
    def of(cls, evaluation: Evaluation, about: dict[str, Any]) -> "Report":
        results = tuple(CaseResult(case, tuple(observations(case))) for case in evaluation.cases)
        punctuality = evaluation.punctuality
        common = {
            "antiphon": version("antiphon"),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **about,
            "simulated": evaluation.simulated,
            "chunk_ms": round(evaluation.chunk_s * 1000),
            "seconds": round(evaluation.seconds),
            "punctuality": asdict(punctuality),
            "errors": dict(evaluation.errors),
        }
        found = (observation for result in results for observation in result.observations)
        return cls(about=common, results=results, estimates=estimates(found))

    @property
    def failed(self) -> list[CaseResult]:
        return [result for result in self.results if result.faults]

    @property
    def warnings(self) -> list[str]:
        """What makes the figures doubtful."""
        found = []
        if self.about["simulated"]:
            found.append("the answers are simulated: the figures say nothing about a model")
        late = self.about["punctuality"]
        if late["results_late"] > late["results"] / 100 or late["sent_late"] > late["sent"] / 100:
            found.append(
                f"{late['results_late']} of {late['results']} results came later than the next chunk, and "
                f"{late['sent_late']} of {late['sent']} chunks were sent late: the machine is too busy, so try "
                "fewer --calls"
            )
        found += [f"{count} times: {error}" for error, count in self.about["errors"].items()]
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            **self.about,
            "measures": {
                name: {"label": MEASURES[name].label, **asdict(estimate)}
                for name, estimate in self.estimates.items()
            },
            "cases": [_case_json(result) for result in self.results],
        }


def _case_json(result: CaseResult) -> dict[str, Any]:
    case = result.case

    def pair(span: Span | None) -> list[float] | None:
        return [round(span.begin, 3), round(span.end, 3)] if span else None

    return {
        "kind": case.kind,
        "text": case.text,
        "voice": case.voice,
        "seconds": round(case.seconds, 2),
        "turns": [
            {"kind": turn.kind, "span": pair(turn.span), "pause": pair(turn.pause)}
            for turn in case.turns
        ],
        "aside": pair(case.aside.span) if case.aside else None,
        "answers": [
            {"text": one.text, "span": pair(one.span), "ended": one.ended, "cut": one.cut}
            for one in case.answers
        ],
        "observations": [
            {"measure": one.measure, "value": round(float(one.value), 3), "fault": one.fault}
            for one in result.observations
        ],
        "faults": list(result.faults),
    }


def shown(measure: Measure, value: float) -> str:
    """A value with its unit: `0.82 s`, `0.95`, or `2`."""
    if measure.total:
        return f"{value:.0f}"
    return f"{value:.2f} {measure.unit}".rstrip()


def measure_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Label, value, range, number of cases, what is good, and the meaning."""
    for name, estimate in report.estimates.items():
        measure = MEASURES[name]
        spread = f"{shown(measure, estimate.low)} to {shown(measure, estimate.high)}"
        value = shown(measure, estimate.value)
        yield measure.label, value, spread, str(estimate.n), measure.good, measure.meaning


MEASURE_COLUMNS = ("measure", "value", "95 %", "n", "good", "meaning")


def anchor_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """This system, and the published ones. A measure without cases is empty."""
    own = [report.estimates.get(name) for name in ANCHORED]
    yield "this run", *(f"{one.value:.2f}" if one else "" for one in own)
    for system, values in ANCHORS.items():
        yield system, *(f"{value:.2f}" for value in values)


ANCHOR_COLUMNS = ("system", *(MEASURES[name].label for name in ANCHORED))


def worst(report: Report, count: int) -> list[CaseResult]:
    """Those with most faults, then those with the longest times."""

    def badness(result: CaseResult) -> tuple[float, float]:
        times = [one.value for one in result.observations if MEASURES[one.measure].unit == "s"]
        return len(result.faults), max(times, default=0.0)

    return sorted(report.results, key=badness, reverse=True)[:count]


def markdown(report: Report) -> str:
    """Both tables for a document."""
    parts = [_markdown_table(MEASURE_COLUMNS, list(measure_rows(report)))]
    parts.append(_markdown_table(ANCHOR_COLUMNS, list(anchor_rows(report))))
    return "\n".join(parts)


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
