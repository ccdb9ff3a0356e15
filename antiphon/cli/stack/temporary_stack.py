"""Commands with a temporary stack; after SIGTERM they end as after Ctrl-C."""

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from antiphon.cli.stack.logs import LogFiles
from antiphon.cli.stack.stack import Stack, StackPlan, open_stack

TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """In the block, SIGTERM does what Ctrl-C does, so that temporary files are removed.

    The block exits with the status TERMINATED then. Also where Ctrl-C is ignored, as in the background of a
    script.
    """
    terminated = False

    def interrupt(_: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        of_ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(of_ctrl_c):
            raise KeyboardInterrupt
        of_ctrl_c(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            raise typer.Exit(TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def temporary_stack(plan_in: Callable[[Path], StackPlan]) -> Iterator[Stack]:
    """As `open_stack`, in a folder that is removed when the block ends."""
    with (
        interrupted_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="antiphon-") as folder,
        LogFiles(Path(folder) / "logs") as logs,
        open_stack(plan_in(Path(folder)), logs.take) as stack,
    ):
        yield stack
