"""Stacks that several browser tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.stack import Stack, new_stack

TALKATIVE = (
    '{"speak_ratio": 1.0, "speak_ms": 60, "prepare_ms": 10, "prefill_ms": 10, '
    '"answer_pieces": 1000}'
)
"""Duplex sessions listen while they are forced to, then speak. Answers last a minute unless stopped."""


@contextmanager
def running_stack(folder: Path, engine: str, **worker: object) -> Iterator[Stack]:
    """An edge, a recorder and a worker. At the end no log may contain a traceback."""
    with new_stack(folder, aof=True) as running:
        running.edge()
        running.recorder(recorder_settle_s=0.1)
        running.worker(engine, **worker)
        yield running
