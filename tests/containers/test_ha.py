"""The profile `ha`: a session continues when the container of the Redis master is killed."""

import asyncio
from collections.abc import Iterator

import pytest

from compose import Compose, eventually, stack_of
from support.edge_harness import base64_audio
from support.resuming_client import Resumer

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
    """`master`, `slave`, or the first word of an error: Sentinel cuts all connections of a server whose
    role it changes, and a server that starts refuses them."""
    return " ".join(ha.tell(service, f"{CLI} role").split()[:1])


def known(ha: Compose, sentinel: str, of: str) -> int:
    """The number of replicas, or of other Sentinels, that a Sentinel knows."""
    return ha.tell(sentinel, f"{CLI} -p 26379 sentinel {of} antiphon").split().count("name")


async def master_and_replicas(ha: Compose) -> tuple[str, list[str]]:
    """Sentinel may have replaced the first master already: a busy machine may stop it for seconds."""
    roles: dict[str, str] = {}

    def are_settled() -> bool:
        roles.update({name: role(ha, name) for name in SERVERS})
        return sorted(roles.values()) == ["master", "slave", "slave"]

    await eventually(are_settled)
    (master,) = (name for name, its in roles.items() if its == "master")
    return master, [name for name in SERVERS if name != master]


async def test_a_session_survives_the_loss_of_the_redis_master(ha: Compose) -> None:
    for sentinel in SENTINELS:
        for of in ("replicas", "sentinels"):
            await eventually(lambda s=sentinel, of=of: known(ha, s, of) == 2)
    client = Resumer("/ws/duplex/adx_containers_ha", tls=ha.trust)
    async with client.connected(ha.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result")
        master, replicas = await master_and_replicas(ha)
        await asyncio.to_thread(ha.docker, "kill", ha.containers(master)[0]["ID"])
        await eventually(lambda: "master" in [role(ha, name) for name in replicas])
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result", skip=("queue_update",))
        await client.send("stop")
        await client.expect("stopped", skip=("result", "queue_update"))
    ha("start", master)
    await eventually(lambda: role(ha, master) == "slave")
    # The same Sentinel with the same id: the others do not count it twice.
    ha("restart", "--timeout", "5", SENTINELS[0])
    await eventually(lambda: known(ha, SENTINELS[0], "sentinels") == 2)
    assert known(ha, SENTINELS[1], "sentinels") == 2
