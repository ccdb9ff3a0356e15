"""A table and a plot of results of `bench/gpu_duplex.py --json`, and the costs that they measured.

python bench/gpu_report.py paced.json in_step.json             # rows for the engine's README.md
python bench/gpu_report.py paced.json --svg latency.svg
python bench/gpu_report.py paced.json --costs costs.json       # for bench/schedule.py --costs
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

GIB = 2**30
COLUMNS = (
    "date",
    "card",
    "start of the units",
    "speak",
    "sessions",
    "LISTEN p50 / p99, ms",
    "SPEAK p50 / p99, ms",
    "missed of 1000",
    "context",
    "graphs",
    "VRAM, GiB",
    "options",
)
OPTIONS = ("quantize", "one_stream", "float32", "vocoder_graphs", "eager", "cudnn", "frames")
"""Of the bench, named in a row if they are not off."""

HEADER = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
CURVES = (
    ("speak", "p99", "#b3261e", "SPEAK p99"),
    ("speak", "p50", "#e08a83", "SPEAK p50"),
    ("listen", "p99", "#1c5fa8", "LISTEN p99"),
    ("listen", "p50", "#8ab4e0", "LISTEN p50"),
)
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 60, 40, 130, 60
DEADLINE_MS = 1000


def table_row(about: dict[str, Any], row: dict[str, Any]) -> str:
    """A row of the table for a result of one number of sessions."""
    asked = about["arguments"]
    start = "paced" if asked["paced"] else "in step"
    cells = [about["date"], about["card"], start, f"{asked['speaking']:.0%}", str(row["sessions"])]
    if not row["fits"]:
        return f"| {' | '.join([*cells, row['why'], *[''] * (len(COLUMNS) - 6)])} |"
    cells += [_percentiles(row["listen"]), _percentiles(row["speak"])]
    cells += [f"{row['missed_per_1000']:.0f}", str(row["context"]), f"{row['graphs']:.0%}"]
    cells.append(f"{row['vram_bytes'] / GIB:.1f}")
    cells.append(_options(asked))
    return f"| {' | '.join(cells)} |"


def _options(asked: dict[str, Any]) -> str:
    named = []
    for name in OPTIONS:
        value = asked.get(name)
        if value is None or value is False or value == "none":
            continue
        number = f"{name}={value}" if isinstance(value, int) else str(value)
        named.append(name if value is True else number)
    return " ".join(named) or "–"


def _percentiles(times: dict[str, float] | None) -> str:
    return f"{times['p50']:.0f} / {times['p99']:.0f}" if times else "–"


def _in_order(result: dict[str, Any]) -> list[dict[str, Any]]:
    """By number of sessions. The bench measures in the order of its option."""
    return sorted(result["rows"], key=lambda row: int(row["sessions"]))


STAGES = {
    "Feed": "Feed",
    "SampleToken": "SampleToken",
    "EncodeAudio": "EncodeAudio",
    "EncodeImages": "EncodeImages",
    "SpeechCondition": "SpeechCondition",
    "DecodeSpeech": "DecodeSpeech",
    "DecodeCodes": "DecodeCodes",
    "Token2wav, wait of a session": "Token2wav",
}
"""Stages of the bench, and their names in the costs of the simulation."""

HOST_SESSION_MS = 0.05
"""Assumed Python of a session between two batches, which no stage includes."""


def costs(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Milliseconds of a batch of each stage, for `bench/schedule.py`: a line through the medians of all
    numbers of sessions, which all start together. Draws are part of a feed there and separate here. The
    stages include the host's part of a batch and the reading of the cache, so these cost nothing more.
    """
    rows = [row for result in results for row in result["rows"] if row["fits"]]
    points: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        stages = {
            STAGES[name]: stage["median"]
            for name, stage in row["stages_ms"].items()
            if name in STAGES
        }
        if "Feed" in stages:
            stages["Feed"] -= stages.get("SampleToken", 0.0)
        if "DecodeCodes" in stages:
            stages["DecodeCodes"] /= row["codes_per_step"]
        for name, median in stages.items():
            points.setdefault(name, []).append((row["sessions"], median))
    return {name: _line_through(found) for name, found in points.items()} | {
        "Host": {"per_session": HOST_SESSION_MS},
        "ReadCache": {},
    }


def _line_through(points: Sequence[tuple[int, float]]) -> dict[str, float]:
    """`base` and `per_session` by least squares, neither of them negative."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    slope = min(max(0.0, slope), mean_y / mean_x)
    return {"base": mean_y - slope * mean_x, "per_session": slope}


@dataclass(frozen=True)
class Axes:
    """Positions in the plot: a place per number of sessions, and milliseconds on a linear scale."""

    counts: Sequence[int]
    highest: float

    def x(self, count: int) -> float:
        step = (WIDTH - LEFT - RIGHT) / max(1, len(self.counts) - 1)
        return LEFT + step * self.counts.index(count)

    def y(self, milliseconds: float) -> float:
        room = HEIGHT - TOP - BOTTOM
        return TOP + room * (1 - min(milliseconds, self.highest) / self.highest)


def plot(result: dict[str, Any]) -> str:
    """Latencies over the number of sessions as an SVG, with missed deadlines below the numbers.

    Latencies of more than twice the deadline are drawn at the upper edge.
    """
    rows = [row for row in _in_order(result) if row["fits"]]
    times = [row[kind][part] for row in rows for kind, part, *_ in CURVES if row[kind]]
    highest = min(2 * DEADLINE_MS, max([1.0, *times]) * 1.1)
    axes = Axes([row["sessions"] for row in rows], highest)
    title = f"{result['card']}, {result['sizes']} sizes, {result['date']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, f"Latency of a unit in ms: {title}", "start"),
        *_grid(axes),
        *(_columns(axes, row) for row in rows),
        *(
            _curve(axes, rows, place, *CURVES[place])
            for place in range(len(CURVES))
            if any(row[CURVES[place][0]] for row in rows)
        ),
        _text(LEFT - 6, HEIGHT - BOTTOM + 20, "sessions", "end"),
        _text(LEFT - 6, HEIGHT - BOTTOM + 38, "missed ‰", "end"),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _grid(axes: Axes) -> list[str]:
    lines = []
    for part in range(6):
        value = axes.highest * part / 5
        lines += [_line(axes.y(value), "#ddd"), _text(LEFT - 6, axes.y(value) + 4, f"{value:.0f}")]
    if axes.highest > DEADLINE_MS:
        lines.append(_line(axes.y(DEADLINE_MS), "black", dashes="4 4"))
    return lines


def _columns(axes: Axes, row: dict[str, Any]) -> str:
    x, below = axes.x(row["sessions"]), HEIGHT - BOTTOM
    missed = f"{row['missed_per_1000']:.0f}"
    return _text(x, below + 20, str(row["sessions"]), "middle") + _text(
        x, below + 38, missed, "middle"
    )


def _curve(
    axes: Axes,
    rows: Sequence[dict[str, Any]],
    place: int,
    kind: str,
    part: str,
    color: str,
    name: str,
) -> str:
    points = [(axes.x(row["sessions"]), axes.y(row[kind][part])) for row in rows if row[kind]]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points)
    label = _text(WIDTH - RIGHT + 24, TOP + 18 * place, name, "start", color)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>{dots}{label}'


def _line(y: float, color: str, dashes: str = "") -> str:
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}"{dash}/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "end", color: str = "black") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"'
    return f"<text {place}>{escape(text)}</text>"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, help="JSON of bench/gpu_duplex.py")
    parser.add_argument(
        "--svg", type=Path, help="plot the result with the most numbers of sessions into this file"
    )
    parser.add_argument("--costs", type=Path, help="write the measured costs of steps to this file")
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for path in args.results]
    print(HEADER)
    for result in results:
        for row in _in_order(result):
            print(table_row(result, row))
    if args.svg:
        args.svg.write_text(plot(max(results, key=lambda result: len(result["rows"]))))
    if args.costs:
        args.costs.write_text(json.dumps(costs(results), indent=1) + "\n")


if __name__ == "__main__":
    main()
