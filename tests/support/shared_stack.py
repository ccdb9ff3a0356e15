"""Stacks that several browser tests share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.states import EndReason
from support.stack import Stack, new_stack

TALKATIVE = (
    '{"speak_ratio": 1.0, "speak_ms": 60, "prepare_ms": 10, "prefill_ms": 10, '
    '"answer_pieces": 1000}'
)
"""Duplex sessions listen while they are forced to, then speak. Answers last a minute unless stopped."""


@contextmanager
def running_stack(folder: Path, engine: str, **worker: object) -> Iterator[Stack]:
    """An edge, a recorder and a worker. At the end no log may contain a traceback.

    Pages may be away for as long as a busy machine needs; `end_sessions` ends what they leave.
    """
    with new_stack(folder, aof=True) as running:
        running.environment["ANTIPHON_RESUME_GRACE_S"] = "300"
        running.edge()
        running.recorder(recorder_settle_s=0.1)
        running.worker(engine, **worker)
        yield running


async def end_sessions(stack: Stack) -> None:
    """Ends what the pages of a test have left, whose clients may resume, and waits for free slots."""
    async with open_broker(stack.settings) as broker:
        snapshot = await broker.queue.snapshot()
        for one in (*snapshot.waiting, *snapshot.running):
            await broker.sessions.end(one.sid, EndReason.CANCELLED)
    await stack.no_session_left()
