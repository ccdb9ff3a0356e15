"""The profile `ha`: a session continues when the container of the Redis master is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compose import Compose, stack_of
from support.edge_harness import base64_audio
from support.resuming_client import Resumer
from support.stack import until

WITHIN_S = 90.0
CLI = 'REDISCLI_AUTH="$(cat /run/antiphon/redis_password)" redis-cli'
SERVERS = ("redis", "redis-2", "redis-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")


@pytest.fixture(scope="module")
def ha(images: dict[str, str]) -> Iterator[Compose]:
    """A stack with Sentinel, of the same images."""
    url = "redis+sentinel://sentinel/antiphon"
    ha = stack_of(images, "antiphon-test-ha", ANTIPHON_REDIS_URL=url, COMPOSE_PROFILES="ha")
    try:
        ha("up", "--detach", "--wait", "--no-build", "--scale", "edge=1", "--scale", "recorder=1")
        yield ha
    finally:
        ha("down", "--volumes", "--timeout", "20")


def role(ha: Compose, service: str) -> str:
    """`master` or `slave`."""
    return ha("exec", "-T", service, "sh", "-c", f"{CLI} role").split()[0]


def known(ha: Compose, sentinel: str, of: str) -> int:
    """The number of replicas, or of other Sentinels, that a Sentinel knows."""
    command = f"{CLI} -p 26379 sentinel {of} antiphon | grep -c ^name$ || true"
    return int(ha("exec", "-T", sentinel, "sh", "-c", command))


async def test_a_session_survives_the_loss_of_the_redis_master(ha: Compose) -> None:
    assert [role(ha, name) for name in SERVERS] == ["master", "slave", "slave"]
    for sentinel in SENTINELS:
        for of in ("replicas", "sentinels"):
            await until(lambda s=sentinel, of=of: known(ha, s, of) == 2, within_s=WITHIN_S)
    client = Resumer("/ws/duplex/adx_containers_ha", tls=ha.trust)
    async with client.connected(ha.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result")
        ha.docker("kill", ha.containers("redis")[0]["ID"])
        await until(lambda: "master" in [role(ha, name) for name in SERVERS[1:]], within_s=WITHIN_S)
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result", skip=("queue_update",))
        await client.send("stop")
        await client.expect("stopped", skip=("result", "queue_update"))
    ha("start", "redis")
    await until(lambda: role(ha, "redis") == "slave", within_s=WITHIN_S)
    # The same Sentinel with the same id: the others do not count it twice.
    ha("restart", "--timeout", "5", SENTINELS[0])
    await until(lambda: known(ha, SENTINELS[0], "sentinels") == 2, within_s=WITHIN_S)
    assert known(ha, SENTINELS[1], "sentinels") == 2
