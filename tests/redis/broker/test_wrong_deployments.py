"""What a service and `antiphon doctor` say about a Redis that cannot be used: one line with the remedy."""

import asyncio
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from antiphon.broker.client import open_broker
from antiphon.broker.connections import cluster, pool, sentinel
from antiphon.broker.errors import BrokerError
from antiphon.broker.redis_server.checkup import examine_redis
from antiphon.broker.service.process import with_remedy
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.findings import FindingStatus
from redis import Redis
from support.fork_server import run_antiphon
from support.redis_cluster import redis_cluster
from support.redis_sentinel import RedisSentinel, redis_sentinel
from support.redis_server import (
    ADMIN,
    RedisServer,
    each_server,
    free_port,
    redis_binary,
    server_id,
)
from support.tcp_server import tcp_server

pytestmark = pytest.mark.one_redis

RIGHTS = "docs/deployment.md"
NO_DATABASE_1 = (
    "DB index is out of range"
    if server_id(redis_binary()).startswith("valkey-9")
    else "SELECT is not allowed in cluster mode"
)
"""What a node of a cluster says. One of Valkey 9 can have more databases, and has one by default."""


PATIENCE_S = 60.0
"""A busy machine may stop a server for long."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Sentinel and no node is passed over because it is late."""
    monkeypatch.setattr(sentinel, "_ANSWER_S", PATIENCE_S)
    monkeypatch.setattr(cluster, "_LOOKUP_S", PATIENCE_S)
    monkeypatch.setattr(cluster, "_LONGEST_REFRESH_S", PATIENCE_S)


def patient(url: str, **more: object) -> BrokerSettings:
    return BrokerSettings.model_validate({"redis_url": url, "redis_timeout_s": PATIENCE_S, **more})


@pytest.fixture
def gives_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a lookup or a handshake that is never answered, long before the call is over."""
    monkeypatch.setattr(pool, "_STEP_SHARE", 0.005)


async def refusal(url: str, **more: object) -> str:
    """The line of a service that cannot start."""
    settings = patient(url, **more)
    try:
        async with open_broker(settings):
            pytest.fail("it started")
    except BrokerError as error:
        return with_remedy(error)


async def failures(url: str, **more: object) -> str:
    """The failed checks of `antiphon doctor` with their remedies."""
    found = await examine_redis(patient(url, **more))
    return "\n".join(
        f"{one.about}: {one.found}; {one.remedy}"
        for one in found
        if one.verdict is FindingStatus.FAILURE
    )


async def both_say(url: str, problem: str, remedy: str, **more: object) -> None:
    for said in (await refusal(url, **more), await failures(url, **more)):
        assert problem in said
        assert remedy in said
        assert "\n" not in said
        assert len(said) < 500


@pytest.fixture(params=each_server())
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis", binary=request.param) as started:
        yield started


@pytest.fixture
def admin(server: RedisServer) -> Iterator[Redis]:
    with Redis(port=server.port, **ADMIN) as client:
        yield client


async def test_logins_that_are_missing_wrong_or_needless(
    server: RedisServer, admin: Redis, tmp_path: Path
) -> None:
    place = f"127.0.0.1:{server.port}"
    needless = "the server has no password: remove it from ANTIPHON_REDIS_URL"
    await both_say(f"redis://:x@{place}", "Redis refuses the login: ", needless)
    admin.config_set("requirepass", "p@:/?#x")
    correct = "correct the user and the password in ANTIPHON_REDIS_URL"
    await both_say(f"redis://{place}", "Authentication required", "ANTIPHON_REDIS_PASSWORD_FILE")
    await both_say(f"redis://:wrong@{place}", "Redis refuses the login: ", correct)
    await both_say(f"redis://nobody:x@{place}", "Redis refuses the login: ", correct)
    file = tmp_path / "password"
    file.write_text("wrong\n")
    await both_say(f"redis://{place}", "refuses the login: ", correct, redis_password_file=file)
    file.write_text("p@:/?#x\n")
    for url, more in (
        (f"redis://{place}", {"redis_password_file": file}),
        (f"redis://:p%40%3A%2F%3F%23x@{place}/0/", {}),
    ):
        assert await failures(url, **more) == ""


async def test_a_user_without_rights_is_refused_before_the_first_session(
    server: RedisServer, admin: Redis
) -> None:
    url = f"redis://anna:x@127.0.0.1:{server.port}"
    for rules, lacking in (
        (("~*", "+@all", "-evalsha", "-xread"), "evalsha, xread"),
        (("~*", "+@all", "-client"), "client|id, client|unblock"),
        (("~other:*", "+@all"), "the keys {antiphon}:* and antiphon:*"),
        (("~{antiphon}:*", "+@all"), "the keys {antiphon}:* and antiphon:*"),
        (("~*", "+@all", "-info"), "info"),
        (("~*", "+@read", "+ping", "+info"), "del and "),
    ):
        admin.execute_command("ACL", "SETUSER", "anna", "reset", "on", ">x", "resetkeys", *rules)
        await both_say(url, lacking, RIGHTS)
    assert admin.dbsize() == 0, "the check writes nothing"


async def test_rights_to_subscribe_are_optional(server: RedisServer, admin: Redis) -> None:
    rules = ("~*", "+@all", "-subscribe", "-pubsub", "-role", "resetchannels")
    admin.execute_command("ACL", "SETUSER", "anna", "on", ">x", *rules)
    url = f"redis://anna:x@127.0.0.1:{server.port}"
    async with open_broker(patient(url)):
        pass
    assert await failures(url) == ""


async def test_databases_that_the_server_does_not_have(server: RedisServer) -> None:
    remedy = "write a database that the server has at the end of ANTIPHON_REDIS_URL"
    for db in (99, 10**20):
        await both_say(f"redis://127.0.0.1:{server.port}/{db}", "out of range", remedy)


async def test_a_command_names_the_remedy(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        arguments = ("queue", "--redis-url", f"redis://127.0.0.1:{server.port}/99")
        done = await asyncio.to_thread(
            run_antiphon, *arguments, folder=tmp_path, environment=dict(os.environ)
        )
    assert done.returncode == 1
    assert "write a database that the server has" in done.stderr
    assert "Traceback" not in done.stderr


async def test_servers_that_refuse_writes(
    server: RedisServer, admin: Redis, tmp_path: Path
) -> None:
    admin.config_set("min-replicas-to-write", "1")
    assert "NOREPLICAS" in (said := await refusal(server.url))
    assert "start the replicas" in said
    assert "start the replicas" in await failures(server.url)
    admin.config_set("min-replicas-to-write", "0")
    admin.config_set("maxmemory", "1")
    assert "raise maxmemory" in await refusal(server.url)
    admin.config_set("maxmemory", "0")
    with RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(server.port)) as replica:
        place = f"127.0.0.1:{server.port}"
        assert f"replica of {place}; name the master" in await refusal(replica.url)
        assert f"name its master, {place}" in await failures(replica.url)


async def test_a_server_that_deletes_keys_is_logged(
    server: RedisServer, admin: Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    admin.config_set("maxmemory-policy", "allkeys-lru")
    async with open_broker(patient(server.url)):
        pass
    assert "redis_evicts" in capfd.readouterr().out
    assert "maxmemory-policy noeviction" in await failures(server.url)


@pytest.mark.usefixtures("gives_up_soon")
async def test_a_server_without_tls(redis_server: RedisServer) -> None:
    remedy = "a server without TLS needs redis:// instead of rediss://"
    place = f"127.0.0.1:{redis_server.port}"
    await both_say(f"rediss://{place}", "silent in the TLS handshake", remedy)


async def test_servers_of_another_kind(server: RedisServer) -> None:
    place = f"127.0.0.1:{server.port}"
    await both_say(f"redis+cluster://{place}", f"{place} has no cluster", "use redis://")
    await both_say(
        f"redis+sentinel://{place}/mymaster",
        f"{place} is not a Sentinel",
        "name Sentinels in ANTIPHON_REDIS_URL, or one server with redis://",
    )


async def test_hosts_that_do_not_exist() -> None:
    remedy = "correct the host in ANTIPHON_REDIS_URL"
    await both_say("redis://host.invalid", "no address of host.invalid is known", remedy)
    nowhere = f"127.0.0.1:{free_port()}"
    await both_say(f"redis://{nowhere}", f"nothing listens at {nowhere}", "ANTIPHON_REDIS_URL")


@pytest.mark.usefixtures("gives_up_soon")
async def test_a_name_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def hangs(*_: object, **__: object) -> NoReturn:
        answer.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    text = "no address of host.example is known (the name service does not answer)"
    for url in (
        "redis://host.example",
        "redis+cluster://host.example",
        "redis+sentinel://host.example/mymaster",
    ):
        await both_say(url, text, "or the name service of this machine")
    answer.set()


async def test_all_addresses_of_a_name_are_tried(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finds(*_: object, **__: object) -> list[tuple[object, ...]]:
        addresses = ("127.0.0.2", "127.0.0.1")  # the server listens at the second one only
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]

    url = f"redis://host.example:{server.port}"
    monkeypatch.setattr(socket, "getaddrinfo", finds)
    assert await failures(url) == ""
    server.stop()
    assert f"nothing listens at host.example:{server.port}" in await refusal(url)


@asynccontextmanager
async def program(*answers: bytes) -> AsyncIterator[str]:
    """The address of a program that gives these answers to the commands."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n" if answer.startswith(b"HTTP") else b"\r\n")
            writer.write(answer)
        await asyncio.Event().wait()  # until the server ends

    async with tcp_server(serve) as port:
        yield f"127.0.0.1:{port}"


async def test_another_program() -> None:
    async with program(b"<html>\r\n") as place:
        await both_say(f"redis://{place}", "Protocol error", "another program listens there")


async def test_a_server_in_protected_mode() -> None:
    page = b"-DENIED Redis is running in protected mode because it is on. In this mode: 1) 2)\r\n"
    async with program(page) as place:
        await both_say(f"redis://{place}", "protected mode because it is on", "set requirepass")


async def test_an_old_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.broker.requirements._OLDEST_REDIS", (99, 0))
    with RedisServer(tmp_path / "redis") as server:
        assert re.search(r"Redis \d.* is too old; .* or newer is needed", await refusal(server.url))
        assert "redis version: " in await failures(server.url)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSentinel]:
    with redis_sentinel(tmp_path_factory.mktemp("sentinel"), replicas=0) as started:
        yield started


async def test_sentinels_that_are_named_in_the_wrong_way(group: RedisSentinel) -> None:
    one = f"127.0.0.1:{group.sentinels[0].port}"
    await both_say(f"redis://{one}", "this is a Sentinel", "use redis+sentinel://")
    await both_say(f"redis+cluster://{one}", "has no cluster", "redis+sentinel:// for Sentinels")
    other = group.url.replace("mymaster", "yours")
    await both_say(other, f"{one} knows only 'mymaster'", "`sentinel monitor`")


async def test_a_server_among_the_sentinels_is_passed_over(group: RedisSentinel) -> None:
    mixed = group.url.replace("//", f"//127.0.0.1:{group.master.port},")
    async with open_broker(patient(mixed)):
        pass
    (finding,) = (
        one
        for one in await examine_redis(patient(mixed))
        if one.about == "redis sentinel" and one.verdict is FindingStatus.WARNING
    )
    assert finding.found == f"127.0.0.1:{group.master.port} is not a Sentinel"


async def test_a_login_at_sentinels_that_have_none(group: RedisSentinel, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("x")
    await both_say(
        f"redis+sentinel://127.0.0.1:{group.sentinels[0].port}/mymaster",
        "refuses the login",
        "remove ANTIPHON_REDIS_SENTINEL_USER and ANTIPHON_REDIS_SENTINEL_PASSWORD_FILE",
        redis_sentinel_password_file=file,
    )


async def test_a_cluster_that_is_named_wrong_or_has_a_hole(tmp_path: Path) -> None:
    with redis_cluster(tmp_path, replicas=0) as servers:
        node = servers.nodes[0]
        one = f"redis://127.0.0.1:{node.port}"
        await both_say(one, "one", "redis+cluster://")
        for each in servers.nodes[:2]:
            each.admin.execute_command("ACL", "SETUSER", "anna", "on", ">x", "~*", "+@all")
        unknown = f"127.0.0.1:{servers.nodes[2].port}: Redis refuses the login"
        login = servers.url.replace("//", "//anna:x@").rpartition(",")[0]
        await both_say(login, unknown, "correct the user and the password")
        await both_say(f"{one}/1", NO_DATABASE_1, "a cluster has only 0")
        await asyncio.to_thread(node.cluster, "DELSLOTS", 16)
        assert f"{node.port}: 16383 of 16384 slots are served" in await failures(servers.url)
        for each in servers.nodes[1:]:
            await asyncio.to_thread(each.cluster, "DELSLOTS", 16)
        async with asyncio.timeout(60):
            while "The cluster is down" not in (said := await refusal(servers.url)):
                await asyncio.sleep(0.1)
        assert "redis-cli --cluster fix" in said
        assert "redis-cli --cluster fix" in await failures(servers.url)
