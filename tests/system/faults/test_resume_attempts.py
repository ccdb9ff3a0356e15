"""A client whose attempt to resume stalls, so that it tries again while the edge serves the first attempt."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from antiphon.client import link
from antiphon.client.duplex import DuplexSession, connect_duplex
from support.fault_stack import fault_stack
from support.stack import until
from support.tcp_proxy import tcp_proxy

SECOND = np.zeros(16_000, np.float32)


async def _exchange(session: DuplexSession, until_ms: int) -> None:
    async with asyncio.timeout(90):
        await session.send_audio(SECOND)
        assert (await anext(session.results())).message.current_time == until_ms


@pytest.mark.extended
async def test_f21_the_client_library_survives_a_stall_of_all_its_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several attempts arrive at the edge together when the network forwards again."""
    monkeypatch.setattr(link, "_ATTEMPT_S", 0.5)
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker()
        async with (
            tcp_proxy(faults.stack.edge_port) as proxy,
            connect_duplex(f"ws://{proxy.address}", resume=True) as session,
        ):
            await session.wait_for_turn()
            await session.prepare()
            await _exchange(session, 1000)
            before = proxy.accepted
            proxy.freeze()
            proxy.reset()
            await until(lambda: proxy.accepted >= before + 4)
            monkeypatch.setattr(link, "_ATTEMPT_S", 60.0)
            proxy.thaw()
            await _exchange(session, 2000)
            await session.stop()
        await faults.stack.no_session_left()
