"""SIGTERM for commands that have a temporary stack: they end as after Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

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
