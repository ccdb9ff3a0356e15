from typing import Any

import pytest
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from antiphon.broker.connections import cluster
from antiphon.broker.connections.cluster import HashSlotMap, slot_of
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.redis_address import Endpoint

SEEDS = (("seed", 1), ("seed", 2))
HALF = REDIS_CLUSTER_HASH_SLOTS // 2


class Nodes:
    """What the nodes of a cluster reply to CLUSTER SLOTS; a node that is not in `replies` is lost."""

    def __init__(self) -> None:
        self.replies: dict[Endpoint, list[Any]] = {}
        self.asked: list[Endpoint] = []

    def agree(self, first: Endpoint, second: Endpoint, *, at: tuple[Endpoint, ...]) -> None:
        view = [
            [0, HALF - 1, [first[0].encode(), first[1], b"id"]],
            [HALF, REDIS_CLUSTER_HASH_SLOTS - 1, [second[0].encode(), second[1], b"id", []]],
        ]
        self.replies |= dict.fromkeys(at, view)

    async def __call__(self, endpoint: Endpoint) -> list[Any]:
        self.asked.append(endpoint)
        if endpoint not in self.replies:
            raise BrokerUnavailable("lost")
        return self.replies[endpoint]


@pytest.fixture(autouse=True)
def always_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_REFRESH_S", -1.0)


async def test_the_seeds_are_asked_again_when_every_known_node_is_lost() -> None:
    nodes = Nodes()
    nodes.agree(("a", 1), ("b", 1), at=SEEDS)
    known = HashSlotMap(SEEDS, nodes)
    assert await known.masters() == [("a", 1), ("b", 1)]
    assert await known.master_of(HALF) == ("b", 1)
    nodes.replies.clear()
    nodes.agree(("c", 1), ("d", 1), at=(SEEDS[1],))
    known.suspect(("b", 1))
    assert await known.master_of(HALF) == ("d", 1)
    assert set(nodes.asked[1:]) <= {("a", 1), *SEEDS}


async def test_a_node_that_has_failed_is_asked_last() -> None:
    nodes = Nodes()
    nodes.agree(("a", 1), ("b", 1), at=(("a", 1), ("b", 1), SEEDS[0]))
    known = HashSlotMap(SEEDS[:1], nodes)
    await known.masters()
    for _ in range(20):
        known.suspect(("a", 1))
        await known.masters()
    assert ("a", 1) not in nodes.asked


@pytest.mark.parametrize("host", ["", "?"])
async def test_a_node_without_a_host_has_the_one_that_was_asked(host: str) -> None:
    nodes = Nodes()
    nodes.agree((host, 1), (host, 2), at=SEEDS)
    assert await HashSlotMap(SEEDS, nodes).masters() == [("seed", 1), ("seed", 2)]


async def test_a_redirection_counts_until_the_slots_are_read_again() -> None:
    nodes = Nodes()
    nodes.agree(("a", 1), ("b", 1), at=SEEDS)
    known = HashSlotMap(SEEDS[:1], nodes)
    await known.masters()
    nodes.replies.clear()
    known.move(7, ("b", 1))
    with pytest.raises(BrokerUnavailable, match="no node of the cluster answers: lost"):
        await known.master_of(7)
    nodes.agree(("b", 1), ("b", 1), at=SEEDS)
    assert await known.masters() == [("b", 1)]


async def test_a_slot_without_a_server_and_an_empty_node_are_outages() -> None:
    nodes = Nodes()
    nodes.replies[SEEDS[0]] = [[0, 0, [b"a", 1, b"id"]]]
    known = HashSlotMap(SEEDS[:1], nodes)
    assert await known.master_of(0) == ("a", 1)
    with pytest.raises(BrokerUnavailable, match="has the hash slot 9"):
        await known.master_of(9)
    nodes.replies[SEEDS[0]] = []
    with pytest.raises(BrokerUnavailable, match="has joined no cluster"):
        await known.masters()


@pytest.mark.parametrize(
    "command",
    [
        ("XADD", "key", "*", "a", b"b"),
        ("HGETALL", b"key"),
        ("EVALSHA", "0" * 40, 1, "key", "other"),
        ("EVAL", "return 1", 2, "key", "{key}2"),
        ("MEMORY", "USAGE", "key"),
        ("MEMORY USAGE", "key"),
        ("XGROUP", "CREATE", "key", "group", "0"),
        ("XINFO CONSUMERS", "key", "group"),
    ],
)
def test_the_slot_is_that_of_the_first_key(command: tuple[Any, ...]) -> None:
    assert slot_of(command) == key_slot(b"key")


@pytest.mark.parametrize("command", [("PING",), ("CLUSTER", "INFO"), ("CLUSTER INFO",), ("TIME",)])
def test_a_command_without_a_key_has_no_slot(command: tuple[Any, ...]) -> None:
    assert slot_of(command) is None
