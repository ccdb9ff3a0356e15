"""A stack for calls that are about anything but what is said: its engine speaks without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.redis_server import RedisServer
from support.stack import Stack

TALKATIVE = '{"speak_ratio": 1.0, "speak_ms": 60, "prepare_ms": 10}'
"""It listens as long as it has to, and speaks from then on."""


@contextmanager
def talkative_stack(folder: Path, *, slots: int) -> Iterator[Stack]:
    """An edge, a recorder and a worker; at the end no log may hold a traceback."""
    with RedisServer(folder / "redis", aof=True) as redis:
        running = Stack(folder, redis)
        try:
            running.edge()
            running.recorder(recorder_settle_s=0.1)
            running.worker(slots=slots, engine_options=TALKATIVE)
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []
