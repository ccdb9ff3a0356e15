"""What the runners of all kinds of sessions do alike."""

from __future__ import annotations

import structlog

from antiphon.broker.client import Broker
from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.engines.types import EngineError
from antiphon.inference_worker.held_session import HeldSession
from antiphon.inference_worker.session.records import History, Record
from antiphon.shared_schemas.audio import PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.entries import ErrorOut
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.registry import Claim

log = structlog.get_logger()


async def read_streams(broker: Broker, claim: Claim) -> tuple[History, History, Record | None]:
    """What earlier workers were told and said, and the `prepare` that they accepted.

    Nothing of all this where none has spoken yet.
    """
    streams, keys, sid, ticket = broker.streams, broker.keys, claim.sid, claim.ticket
    outputs = [x async for x in streams.history(keys.outbound(sid), ticket)]
    if not outputs:
        return (), (), None
    inputs = [x async for x in streams.history(keys.inbound(sid), ticket)]
    beginning = [x async for x in streams.history(keys.prepare(sid), ticket)]
    return inputs, outputs, beginning[-1] if beginning else None


async def report(
    bench: Bench,
    session: HeldSession,
    input_n: int,
    error: EngineError,
    *,
    code: ErrorCode = ErrorCode.INFERENCE_ERROR,
    fatal: bool = False,
    field: str | None = None,
    skipped: tuple[int, ...] = (),
) -> None:
    """Count and log what the engine could not do, and tell the client."""
    bench.counters.engine_errors += 1
    log.warning("engine_error", input_n=input_n, error=str(error), fatal=fatal)
    entry = ErrorOut(
        input_n=input_n,
        skipped=skipped,
        code=code,
        message=str(error),
        field=field,
        fatal=fatal,
    )
    await session.publish(entry)


def reference_voice(data: bytes) -> Samples | None:
    """A reference as an engine takes it; None where the client gave none."""
    return samples_from_bytes(data, PcmFormat.F32) if data else None
