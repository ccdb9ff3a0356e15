"""`antiphon up`: the whole pipeline on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.talk import fail


def up(
    host: Annotated[str | None, typer.Option(help="Address the edge listens on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port the edge listens on.")] = None,
    engine: Annotated[str | None, typer.Option(help="local or simulated.")] = None,
    slots: Annotated[int | None, typer.Option(help="Conversations at once.")] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="A GGUF file instead of the bundled language model.")
    ] = None,
    health_port: Annotated[
        int | None, typer.Option(help="Port of the worker's health page; 0: any free ones for all.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Recordings, and Redis's data.")] = None,
    redis_url: Annotated[
        str | None,
        typer.Option(help="Use this Redis instead of a private one."),
    ] = None,
    redis_port: Annotated[
        int, typer.Option(help="Port of the private Redis; 0 for any free one.")
    ] = 0,
) -> None:
    """Run Redis, an edge, a worker, the recorder and the cleanup job; Ctrl-C stops all of it."""
    from pydantic import ValidationError

    from antiphon.broker.embedded import EmbeddedRedisError
    from antiphon.cli.run_stack import CannotRun, plan_from, run_stack

    try:
        plan = plan_from(
            host=host,
            port=port,
            engine=engine,
            slots=slots,
            model_path=model_path,
            health_port=health_port,
            data_dir=data_dir,
            redis_url=redis_url,
            redis_port=redis_port,
        )
        status = run_stack(plan)
    except (CannotRun, EmbeddedRedisError, ValidationError) as error:
        fail(str(error))
    raise typer.Exit(status)
