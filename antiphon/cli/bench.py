"""`antiphon bench`: how well many users at once are served, by any edge or by a stack of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.load.plan import Form, Kind
from antiphon.cli.talk import ApiKey, fail

QUESTION = Path(__file__).parent / "assets" / "question.wav"
MOST_OWN = 256
"""Slots that a worker may have."""


def bench(
    url: Annotated[
        str | None, typer.Option(help="The edge to load; without it a stack is started for it.")
    ] = None,
    api_key: ApiKey = None,
    engine: Annotated[
        str | None, typer.Option(help="simulated (the default) or local, of the stack started.")
    ] = None,
    sessions: Annotated[int, typer.Option(help="Users at once.", min=1)] = 8,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=1)] = 30.0,
    kinds: Annotated[
        str, typer.Option(help="audio, omni, half-duplex, chat: one, or several with commas.")
    ] = "audio",
    speak_ratio: Annotated[
        float,
        typer.Option(
            help="Share of the time users speak (full duplex); a simulated engine takes the rest.",
            min=0,
            max=1,
        ),
    ] = 0.5,
    wav: Annotated[
        list[Path] | None,
        typer.Option(help="What they say; may be repeated.", show_default="a bundled question"),
    ] = None,
    every: Annotated[
        float, typer.Option(help="Seconds between two questions (half-duplex, chat).", min=0.5)
    ] = 10.0,
    form: Annotated[
        Form, typer.Option(help="Sound as base64 (text), or binary: float32 or 16 bit.")
    ] = Form.TEXT,
    warm_up: Annotated[float, typer.Option(help="Seconds not measured.", min=0)] = 3.0,
    patience: Annotated[
        float, typer.Option(help="Seconds that all may take to be served.", min=1)
    ] = 120.0,
    out: Annotated[Path, typer.Option(help="Folder for report.json and latency.svg.")] = Path(
        "bench-report"
    ),
) -> None:
    """Play many users in real time; print latencies, what was lost or late, and what the server used."""
    if url is not None and engine is not None:
        fail("--url names a running edge, --engine starts one: only one of them", status=2)
    if url is None and sessions > MOST_OWN:
        fail(
            f"one worker serves {MOST_OWN} sessions at most: name a larger system by --url",
            status=2,
        )
    from antiphon.cli.bench_run import run_bench
    from antiphon.cli.load.plan import LoadPlan

    try:
        chosen = tuple(Kind(name.strip()) for name in kinds.split(","))
    except ValueError:
        fail(f"--kinds {kinds}: choose from {', '.join(Kind)}, with commas between", status=2)
    plan = LoadPlan(
        kinds=chosen,
        sessions=sessions,
        seconds=seconds,
        warm_up_s=warm_up,
        patience_s=patience,
        every_s=every,
        speak_ratio=speak_ratio,
        form=form,
    )
    raise typer.Exit(run_bench(plan, url, engine or "simulated", wav or [QUESTION], out, api_key))
