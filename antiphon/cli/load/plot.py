"""Latency as an SVG image: by percentile and over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from antiphon.cli.conversation.latency import percentile
from antiphon.cli.load.log import LoadRequest

COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
_WIDTH, _HEIGHT = 430, 230
_LEFT, _TOP, _GAP = 60, 50, 90
_STYLE = "text{font:12px sans-serif;fill:#333}.axis{stroke:#bbb}.line{fill:none;stroke-width:1.5}"

Curve = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """One diagram. `x` is a share of its width (0..1), `top_ms` the upper end of its scale."""

    left: float
    top_ms: float

    def at(self, x: float, ms: float) -> str:
        down = _HEIGHT * (1 - min(1.0, ms / self.top_ms))
        return f"{self.left + x * _WIDTH:.1f},{_TOP + down:.1f}"

    def frame(self, title: str, ticks: Iterable[tuple[float, str]]) -> str:
        bottom = _TOP + _HEIGHT
        lines = [_text(self.left, _TOP - 14, title)]
        for x, label in ticks:
            place = self.left + x * _WIDTH
            lines.append(_line(place, _TOP, place, bottom) + _text(place - 10, bottom + 16, label))
        for part in range(5):
            y = bottom - _HEIGHT * part / 4
            label = f"{self.top_ms * part / 4:.0f}"
            lines.append(
                _line(self.left, y, self.left + _WIDTH, y) + _text(self.left - 44, y + 4, label)
            )
        return "".join(lines)

    def curve(self, points: Curve, colour: str, dash: str = "none") -> str:
        path = " ".join(self.at(x, ms) for x, ms in points)
        return (
            f'<polyline class="line" stroke="{colour}" stroke-dasharray="{dash}" points="{path}"/>'
        )


def plot(requests: Sequence[LoadRequest], title: str) -> str:
    """The image for a load's requests; each kind of user has a colour."""
    kinds = list(dict.fromkeys(one.kind for one in requests))
    known = [m for m in requests if m.latency_ms is not None]
    top_ms = nice(max((ms for m in known if (ms := m.latency_ms) is not None), default=1.0))
    begin = min((m.due_at for m in requests), default=0.0)
    length_s = max(1.0, max((m.due_at for m in requests), default=0.0) - begin)
    by_rank, over_time = ChartPanel(_LEFT, top_ms), ChartPanel(_LEFT + _WIDTH + _GAP, top_ms)
    parts = [
        _text(_LEFT, 18, title),
        by_rank.frame("ms by percentile", [(rank(p), f"{p:.4g}") for p in (0.0, 50, 90, 99, 99.9)]),
        over_time.frame(
            "ms over time (s): median, and dashed the largest of each second",
            [(share / 4, f"{length_s * share / 4:.0f}") for share in range(5)],
        ),
    ]
    for colour, kind in zip(COLOURS, kinds, strict=False):
        own = [m for m in known if m.kind is kind]
        parts.append(by_rank.curve(tail([m.latency_ms or 0.0 for m in own]), colour))
        parts.append(over_time.curve(_by_second(own, begin, length_s, _median), colour))
        parts.append(over_time.curve(_by_second(own, begin, length_s, max), colour, "3 3"))
        x = _LEFT + 110 * kinds.index(kind)
        parts.append(
            f'<rect x="{x}" y="{_TOP + _HEIGHT + 30}" width="10" height="10" fill="{colour}"/>'
        )
        parts.append(_text(x + 16, _TOP + _HEIGHT + 39, kind))
    width, height = 2 * _WIDTH + _LEFT + _GAP + 20, _TOP + _HEIGHT + 55
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    )
    ground = f'<style>{_STYLE}</style><rect width="{width}" height="{height}" fill="white"/>'
    return f"{head}{ground}{''.join(parts)}</svg>\n"


def rank(percent: float) -> float:
    """Position of a percentile on the axis; every further nine takes the same width."""
    return min(1.0, -math.log10(max(1e-4, 1 - percent / 100)) / 3)


def tail(values: list[float]) -> Curve:
    """Each value at its own percentile."""
    ranked = sorted(values)
    return [(rank(100 * n / len(ranked)), value) for n, value in enumerate(ranked)]


def nice(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … at or above it."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _by_second(
    requests: list[LoadRequest], begin: float, length_s: float, pick: Callable[[list[float]], float]
) -> Curve:
    seconds: dict[int, list[float]] = {}
    for request in requests:
        seconds.setdefault(int(request.due_at - begin), []).append(request.latency_ms or 0.0)
    return [(min(1.0, s / length_s), pick(values)) for s, values in sorted(seconds.items())]


def _median(values: list[float]) -> float:
    return percentile(values, 0.5)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="axis" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
