"""Latency as an SVG image: by percentile and over time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median_low
from xml.sax.saxutils import escape

from antiphon.cli.load.plan import LoadRequest

COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
_WIDTH, _HEIGHT = 430, 230
_LEFT, _TOP, _RIGHT_PANEL = 60, 50, 580
_BOTTOM = _TOP + _HEIGHT
_SIZE = (1030, _BOTTOM + 55)
_STYLE = "text{font:12px sans-serif}.axis{stroke:#bbb}.line{fill:none;stroke-width:1.5}"

Curve = list[tuple[float, float]]
"""Points: a share of a panel's width (0..1), and milliseconds."""


def plot(requests: Sequence[LoadRequest], title: str) -> str:
    """The image for a load's requests; each kind of user has a colour."""
    latencies = [(one, ms) for one in requests if (ms := one.latency_ms) is not None]
    top_ms = nice(max((ms for _, ms in latencies), default=1.0))
    dues = [one.due_at for one in requests] or [0.0]
    begin, length_s = min(dues), max(1.0, max(dues) - min(dues))
    ranks = [(rank(p), f"{p:.4g}") for p in (0.0, 50, 90, 99, 99.9)]
    seconds = [(share / 4, f"{length_s * share / 4:.0f}") for share in range(5)]
    over_time = "ms over time (s): median, and dashed the largest of each second"
    parts = [
        _text(_LEFT, 18, title),
        *_axes(_LEFT, top_ms, "ms by percentile", ranks),
        *_axes(_RIGHT_PANEL, top_ms, over_time, seconds),
    ]
    for n, kind in enumerate(dict.fromkeys(one.kind for one in requests)):
        own = [(one.due_at - begin, ms) for one, ms in latencies if one.kind is kind]
        for left, points, dash in (
            (_LEFT, tail([ms for _, ms in own]), "none"),
            (_RIGHT_PANEL, _by_second(own, length_s, median_low), "none"),
            (_RIGHT_PANEL, _by_second(own, length_s, max), "3 3"),
        ):
            parts.append(_curve(left, points, top_ms, f'"{COLOURS[n]}" stroke-dasharray="{dash}"'))
        parts.append(_text(_LEFT + 110 * n, _BOTTOM + 39, f"■ {kind}", COLOURS[n]))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE[0]} {_SIZE[1]}">'
    ground = f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="white"/>'
    return f"{head}{ground}{''.join(parts)}</svg>\n"


def rank(percent: float) -> float:
    """Position of a percentile on the axis; every further nine takes the same width."""
    return min(1.0, -math.log10(max(1e-4, 1 - percent / 100)) / 3)


def tail(values: list[float]) -> Curve:
    """Each value at its own percentile."""
    return [(rank(100 * n / len(values)), value) for n, value in enumerate(sorted(values))]


def nice(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, … at or above it."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _by_second(own: Curve, length_s: float, pick: Callable[[list[float]], float]) -> Curve:
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for due_s, ms in own:
        seconds[int(due_s)].append(ms)
    return [(min(1.0, s / length_s), pick(values)) for s, values in sorted(seconds.items())]


def _curve(left: float, points: Curve, top_ms: float, stroke: str) -> str:
    path = " ".join(
        f"{left + x * _WIDTH:.1f},{_BOTTOM - _HEIGHT * min(1.0, ms / top_ms):.1f}"
        for x, ms in points
    )
    return f'<polyline class="line" stroke={stroke} points="{path}"/>'


def _axes(
    left: float, top_ms: float, title: str, ticks: Iterable[tuple[float, str]]
) -> Iterable[str]:
    yield _text(left, _TOP - 14, title)
    for x in (left + share * _WIDTH for share, _ in ticks):
        yield _line(x, _TOP, x, _BOTTOM)
    for share, label in ticks:
        yield _text(left + share * _WIDTH - 10, _BOTTOM + 16, label)
    for part in range(5):
        y = _BOTTOM - _HEIGHT * part / 4
        yield _line(left, y, left + _WIDTH, y)
        yield _text(left - 44, y + 4, f"{top_ms * part / 4:.0f}")


def _text(x: float, y: float, text: str, colour: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="axis" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
