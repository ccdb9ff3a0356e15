"""The broker over TLS, with a certificate of its own: one server, Sentinel and a cluster."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis.crc import key_slot

from antiphon.broker.client import open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.keys import Keys
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.retry import retry_until_available
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChunkIn, StreamPosition
from antiphon.shared_schemas.findings import FindingStatus
from support.redis_cluster import RedisCluster, redis_cluster
from support.redis_sentinel import redis_sentinel
from support.redis_server import RedisServer, has_tls, redis_binaries
from support.tls import TestAuthority, tls_proxy

pytestmark = pytest.mark.extended

TICKET = 1_700_000_000_000
SOON_S = 90.0


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def binary() -> Path:
    """Of a server with TLS."""
    found = next(filter(has_tls, redis_binaries()), None)
    if found is None:
        pytest.skip("no server with TLS is installed (Debian: apt-get install redis-server)")
    return found


def on_each(cluster: RedisCluster) -> list[str]:
    """The id of a session for each master."""
    keys, found = Keys(BrokerSettings().key_prefix), dict[int, str]()
    for number in range(1000):
        sid = f"s{number}"
        found.setdefault(cluster.master_of(keys.inbound(sid)).port, sid)
        if len(found) == len(cluster.masters):
            break
    return [*found.values()]


def options(authority: TestAuthority) -> str:
    certificate = f"ssl_certfile={authority.certificate}&ssl_keyfile={authority.key}"
    return f"ssl_ca_certs={authority.ca}&{certificate}"


async def a_stream_is_written_and_read(url: str, sid: str = "s") -> None:
    async with open_broker(BrokerSettings(redis_url=url)) as broker:
        writer = await broker.streams.input_writer(sid, TICKET)
        await writer.append(ChunkIn(audio=b"sound"))
        start = StreamPosition.before(TICKET)
        async with broker.reader.subscribe(broker.keys.inbound(sid), start) as subscription:
            async with asyncio.timeout(60):
                _, entry = await anext(subscription)
        assert isinstance(entry, ChunkIn)
        assert entry.audio == b"sound"


@pytest.mark.one_redis
@pytest.mark.parametrize("loop", [asyncio, uvloop], ids=lambda module: module.__name__)
def test_one_server(redis_server: RedisServer, authority: TestAuthority, loop: Any) -> None:
    async def talk() -> None:
        async with tls_proxy(redis_server.port, authority.server_context()) as port:
            for host in ("localhost", "127.0.0.1"):
                await a_stream_is_written_and_read(f"rediss://{host}:{port}/1?{options(authority)}")

    loop.run(talk())


async def test_a_cluster_of_servers_with_tls(
    authority: TestAuthority, binary: Path, tmp_path: Path
) -> None:
    """Redirections lead to ports with TLS; nodes, replicas and a move of a slot use it as well."""
    folder = tmp_path / "cluster"
    with redis_cluster(folder, binary=binary, tls=authority, replicas=1) as cluster:
        plain = cluster.url
        url = f"{plain.replace('redis+', 'rediss+')}?{options(authority)}"
        settings = BrokerSettings(redis_url=url)
        await asyncio.gather(*(a_stream_is_written_and_read(url, sid) for sid in on_each(cluster)))
        findings = await examine_redis(settings)
        assert [f for f in findings if f.verdict is FindingStatus.FAILURE] == []
        assert any(finding.found.endswith("(all 6 servers)") for finding in findings)
        bare = url.partition("?")[0]
        for refused, remedy in (
            (bare, "correct ssl_ca_certs"),
            (f"{bare}?ssl_ca_certs={authority.ca}", "ssl_certfile and ssl_keyfile"),
            (plain, "needs rediss://"),
        ):
            (finding,) = await examine_redis(BrokerSettings(redis_url=refused))
            assert finding.found.startswith("no node of the cluster answers")
            assert remedy in finding.remedy
        async with open_broker(settings) as broker:
            sid = on_each(cluster)[0]
            writer = await broker.streams.input_writer(sid, TICKET + 1)
            key = broker.keys.inbound(sid)
            start = StreamPosition.before(TICKET + 1)
            async with broker.reader.subscribe(key, start) as entries:
                slot = key_slot(key.encode())
                await asyncio.to_thread(cluster.move_slot, slot, cluster.masters[-1])
                for sound in (b"moved", b"elected"):
                    append = partial(writer.append, ChunkIn(audio=sound))
                    await retry_until_available(append, "append", patience_s=SOON_S)
                    async with asyncio.timeout(SOON_S):
                        _, entry = await anext(entries)
                    assert isinstance(entry, ChunkIn)
                    assert entry.audio == sound
                    if sound == b"moved":
                        cluster.master_of(slot).kill()
                        await asyncio.to_thread(cluster.wait_until_ok)


async def test_nodes_announce_the_names_of_their_certificates(binary: Path, tmp_path: Path) -> None:
    """A certificate often has a name, and no address."""
    authority = TestAuthority(tmp_path, "localhost")
    names = ("--cluster-announce-hostname", "localhost")
    preferred = ("--cluster-preferred-endpoint-type", "hostname")
    folder = tmp_path / "cluster"
    with redis_cluster(
        folder, *names, *preferred, binary=binary, tls=authority, replicas=0
    ) as cluster:
        url = cluster.url.replace("redis+cluster://127.0.0.1", "rediss+cluster://localhost", 1)
        url = f"{url.partition(',')[0]}?{options(authority)}"
        await asyncio.gather(*(a_stream_is_written_and_read(url, sid) for sid in on_each(cluster)))
        findings = await examine_redis(BrokerSettings(redis_url=url))
        assert [f for f in findings if f.verdict is FindingStatus.FAILURE] == []


async def test_a_cluster_whose_certificates_have_other_names(binary: Path, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path, "redis.example")
    with redis_cluster(tmp_path / "cluster", binary=binary, tls=authority, replicas=0) as cluster:
        url = f"{cluster.url.replace('redis+', 'rediss+')}?{options(authority)}"
        (finding,) = await examine_redis(BrokerSettings(redis_url=url))
        assert "certificate is not valid for '127.0.0.1'" in finding.found
        assert "ssl_check_hostname=false" in finding.remedy
        url += "&ssl_check_hostname=false"
        await asyncio.gather(*(a_stream_is_written_and_read(url, sid) for sid in on_each(cluster)))
        findings = await examine_redis(BrokerSettings(redis_url=url))
        assert [f for f in findings if f.verdict is FindingStatus.FAILURE] == []


async def test_sentinels(authority: TestAuthority, binary: Path, tmp_path: Path) -> None:
    """Real servers with TLS: Sentinels and servers ask each client for a certificate."""
    with redis_sentinel(tmp_path / "group", binary=binary, tls=authority) as group:
        plain = group.url
        url = f"{plain.replace('redis+', 'rediss+')}?{options(authority)}"
        settings = BrokerSettings(redis_url=url)
        await a_stream_is_written_and_read(url)
        findings = await examine_redis(settings)
        assert [f for f in findings if f.verdict is FindingStatus.FAILURE] == []
        (quorum,) = (finding for finding in findings if finding.about == "redis sentinel")
        assert quorum.found.startswith("3 Sentinels, quorum 2")
        assert any(finding.found.endswith("(all 2 servers)") for finding in findings)
        bare = url.partition("?")[0]
        for refused, remedy in (
            (bare, "correct ssl_ca_certs"),
            (f"{bare}?ssl_ca_certs={authority.ca}", "ssl_certfile and ssl_keyfile"),
            (plain, "needs rediss://"),
        ):
            (finding,) = await examine_redis(BrokerSettings(redis_url=refused))
            assert finding.found.startswith("no Sentinel knows the master of")
            assert remedy in finding.remedy
        async with open_broker(settings) as broker:
            group.master.kill()
            with pytest.raises(BrokerUnavailable):
                await broker.ping()
            await retry_until_available(broker.ping, "ping", patience_s=SOON_S)


@pytest.mark.one_redis
async def test_a_connection_that_cannot_be_trusted_is_refused(
    redis_server: RedisServer, authority: TestAuthority
) -> None:
    async with tls_proxy(redis_server.port, authority.server_context()) as port:
        for url, reason in (
            (f"rediss://127.0.0.1:{port}", "certificate verify failed"),
            (f"rediss://127.0.0.2:{port}?{options(authority)}", "127.0.0.2"),
            (f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority.ca}", "does not answer"),
            (f"redis://127.0.0.1:{port}", "does not answer"),
        ):
            with pytest.raises(BrokerUnavailable, match=reason):
                async with open_broker(BrokerSettings(redis_url=url, redis_timeout_s=8.0)):
                    pass
