"""The report as one HTML page that needs no other file: tables, and both tracks of each case with a fault."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import av
import numpy as np
import soxr
from av.audio.frame import AudioFrame

from antiphon.cli.evaluate.report import (
    ANCHOR_COLUMNS,
    MEASURE_COLUMNS,
    CaseResult,
    Report,
    anchor_rows,
    measure_rows,
)
from antiphon.cli.evaluate.tracks import Case, Span
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16

_BIT_RATE = 40_000
_WIDTH, _HEIGHT = 900, 40
_STEPS = 450

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #8884; }
section { margin: 2rem 0; } h3 { margin: 0 0 .3rem; } p { margin: .2rem 0; }
svg { width: 100%; height: auto; display: block; } audio { width: 100%; margin-top: .3rem; }
.user { fill: #2a7ab8; } .model { fill: #2e9d57; } .turn { fill: #2a7ab822; } .aside { fill: #d0802a44; }
.fault { color: #c0392b; font-weight: 600; } .warning { color: #b06a00; }
"""


def page(report: Report) -> str:
    about = " · ".join(
        f"{name} {report.about[name]}"
        for name in ("antiphon", "at", "engine", "url")
        if report.about.get(name)
    )
    failed = report.failed
    return "".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>Antiphon evaluation</title><style>{_STYLE}</style>",
            f"<h1>Evaluation</h1><p>{escape(about)}</p>",
            *(f'<p class="warning">{escape(text)}</p>' for text in report.warnings),
            _table(MEASURE_COLUMNS, measure_rows(report)),
            "<p>The ranges hold 95 % of a bootstrap over the cases. Published systems (tau-voice):</p>",
            _table(ANCHOR_COLUMNS, anchor_rows(report)),
            f"<h2>{len(failed)} of {len(report.results)} cases have a fault</h2>",
            "<p>Left and above: the user. Right and below: the model, as it is played.</p>",
            *map(_section, failed),
            "</html>",
        ]
    )


def write_page(report: Report, path: Path) -> None:
    """Raises OSError."""
    path.write_text(page(report), encoding="utf-8")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _section(result: CaseResult) -> str:
    case = result.case
    sound = base64.b64encode(encoded(case)).decode()
    said = " / ".join(answer.text for answer in case.answers if answer.text)
    faults = "; ".join(result.faults)
    return (
        f"<section><h3>{escape(case.kind)}: {escape(case.text)}</h3>"
        f'<p class="fault">{escape(faults)}</p><p>The model: {escape(said) or "nothing"}</p>'
        f"{_drawing(case)}"
        f'<audio controls preload="none" src="data:audio/mpeg;base64,{sound}"></audio></section>'
    )


def _drawing(case: Case) -> str:
    seconds = max(case.seconds, 0.01)
    marks = [_mark(turn.span, seconds, "turn") for turn in case.turns]
    if case.aside is not None:
        marks.append(_mark(case.aside.span, seconds, "aside"))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {2 * _HEIGHT}" role="img" aria-label="both tracks">{"".join(marks)}'
        f'<path class="user" d="{_outline(case.user, _HEIGHT / 2)}"/>'
        f'<path class="model" d="{_outline(case.model, 1.5 * _HEIGHT)}"/></svg>'
    )


def _mark(span: Span, seconds: float, name: str) -> str:
    begin, width = (
        1000 * _WIDTH * time // seconds / 1000 for time in (span.begin, span.end - span.begin)
    )
    return (
        f'<rect class="{name}" x="{begin:.1f}" y="0" width="{width:.1f}" height="{2 * _HEIGHT}"/>'
    )


def _outline(track: Samples, middle: float) -> str:
    """The peaks of a track around a line."""
    block = max(1, -(-len(track) // _STEPS))
    padded = np.pad(np.abs(track), (0, -len(track) % block))
    peaks = np.sqrt(padded.reshape(-1, block).max(axis=1)) * _HEIGHT / 2
    step = _WIDTH / max(1, len(peaks))
    lines = (
        f"M{place * step:.1f} {middle - peak:.1f}h{step:.1f}v{2 * peak:.1f}h-{step:.1f}z"
        for place, peak in enumerate(peaks)
        if peak > 1
    )
    return "".join(lines)


def encoded(case: Case) -> bytes:
    """Both tracks as MP3, which all browsers play: the user on the left, the model on the right."""
    user = to_pcm16(soxr.resample(case.user, INPUT_RATE, OUTPUT_RATE).astype(np.float32))
    model = to_pcm16(case.model)
    count = max(len(user), len(model))
    both = np.stack([np.pad(track, (0, count - len(track))) for track in (user, model)], axis=1)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp3") as file:
        stream = file.add_stream("libmp3lame", rate=OUTPUT_RATE, layout="stereo")
        stream.bit_rate = _BIT_RATE
        frame = AudioFrame.from_ndarray(both.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = OUTPUT_RATE
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return buffer.getvalue()
