"""All services with a Redis user that has only the rights of docs/deployment.md."""

import pytest

from antiphon.broker.client import open_broker
from support.raw_client import open_wire
from support.redis_rights import refused, user_of
from support.stack import Stack, until

pytestmark = pytest.mark.extended


async def test_a_conversation_is_held_and_recorded(stack: Stack) -> None:
    with user_of(stack.redis.url, stack.prefix) as stack.redis_url:
        stack.recorder(recorder_upkeep_s=0.1, recorder_settle_s=0.1)
        stack.edge()
        stack.worker(slots=1)
        async with open_wire(stack.ws_url, "adx_1", "?resume=1") as talking:
            await talking.begin()
            async with open_wire(stack.ws_url, "adx_2") as waiting:
                await waiting.expect("queued")
                for _ in range(3):
                    await talking.send_second()
                    await talking.until("result")
                await talking.send(type="stop")
                await talking.until("stopped")
                await waiting.until("queue_done")
        await until(lambda: list(stack.data_dir.glob("sessions/*/meta.json")))
        async with open_broker(stack.settings) as broker:
            await broker.orphaned_keys.sweep()
        assert refused(stack.redis_url) == []
