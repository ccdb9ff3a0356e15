"""How long a replay waits for a server."""

import asyncio

import pytest

from antiphon.cli.replay.plan import DuplexPlan, HalfDuplexPlan, ReplayPlan
from antiphon.cli.replay.play import ReplayOptions, play
from antiphon.client.errors import NoAnswer
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from support.scripted_server import Scripted, Wire

PLANS = (
    DuplexPlan(False, "Be brief.", DuplexConfig(), None, None, (), cut_off=False),
    HalfDuplexPlan(("Be brief.",), HalfDuplexConfig(), None, ()),
)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("granted", [False, True])
async def test_a_server_that_does_not_prepare_the_session_is_given_up(
    plan: ReplayPlan, granted: bool
) -> None:
    async def script(wire: Wire) -> None:
        if granted:
            await wire.send("queue_done")
        await wire.socket.wait_closed()

    async with asyncio.timeout(60), Scripted(script).running() as server:
        with pytest.raises(NoAnswer, match=r"within 0\.2 s"):
            await play(plan, ReplayOptions(url=server.url, fast=True, patience_s=0.2))
