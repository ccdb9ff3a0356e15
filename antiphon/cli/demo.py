"""`antiphon demo`: the whole pipeline, one spoken question, its answer; what `make demo` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.talk import ApiKey

QUESTION = Path(__file__).parent / "assets" / "question.wav"


def demo(
    question: Annotated[
        Path, typer.Option(help="A sound file with the question.", show_default="a bundled one")
    ] = QUESTION,
    data_dir: Annotated[
        Path, typer.Option(help="Where the reply, the recordings and the logs go.")
    ] = Path("data/demo"),
    api_key: ApiKey = None,
) -> None:
    """Start everything, ask one spoken question in real time, show and save the answer."""
    from antiphon.cli.demo_run import run_demo

    raise typer.Exit(run_demo(question, data_dir, api_key))
