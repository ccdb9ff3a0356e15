"""The clock that processes share, when that of Redis jumps."""

from pathlib import Path

import pytest

from antiphon.broker.client import open_broker
from antiphon.broker.settings import BrokerSettings
from support.redis_server import RedisServer, can_fake_time

TICKET = 1_700_000_000_000
JUMPS_S = (60.0, -60.0, 600.0, 0.0)
EXACT_MS = 10_000.0
"""Less than a jump, and more than an error of a measurement on a busy machine."""


@pytest.mark.skipif(not can_fake_time(), reason="needs a clock that can be set")
async def test_f27_the_writers_of_a_new_session_have_the_same_clock(tmp_path: Path) -> None:
    """Only the edge has noticed the jump. The worker notices it when it opens its stream."""
    with RedisServer(tmp_path / "redis", can_jump=True) as server:
        settings = BrokerSettings(redis_url=server.url)
        async with open_broker(settings) as edge, open_broker(settings) as worker:
            for number, ahead_s in enumerate(JUMPS_S):
                server.set_clock(ahead_s)
                await edge.clock.sync()
                assert abs(worker.clock.now_ms() - edge.clock.now_ms()) > EXACT_MS
                await worker.streams.output_writer("s", TICKET + number, 1)
                assert abs(worker.clock.now_ms() - edge.clock.now_ms()) < EXACT_MS
