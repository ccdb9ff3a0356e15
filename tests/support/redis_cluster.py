"""A real Redis Cluster for tests: masters with replicas, their loss, and slots that move."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from redis.crc import key_slot
from redis.exceptions import RedisError

from redis import Redis
from support.ports import free_port, is_free
from support.redis_server import ADMIN, RedisServer, wait_until
from support.tls import TestAuthority

SLOTS = 16384
_PATIENCE_S = 90.0
_BUS = 10_000
"""Nodes connect to each other's port plus this. Redis 6.2 has no setting for it."""


class ClusterNode(RedisServer):
    """One server of a cluster. It keeps its identity and its slots over restarts."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        node_timeout_ms: int,
        binary: Path | None,
        tls: TestAuthority | None = None,
    ) -> None:
        super().__init__(
            folder,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            *(("--tls-cluster", "yes") if tls else ()),
            *options,
            binary=binary,
            port=_free_ports(),
            tls=tls,
            tls_port=_free_ports(),
        )
        self.admin = Redis(port=self.port, **ADMIN)
        self.id = ""

    def cluster(self, *command: Any) -> Any:
        return self.admin.execute_command("CLUSTER", *command)

    def cpu_s(self) -> float:
        """Seconds of CPU since its start."""
        used: Any = self.admin.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def slots(self) -> dict[tuple[int, int], str]:
        """The first and the last slot of each range -> the id of its master, as this node knows it."""
        ranges = self.cluster("SLOTS")
        return {(first, last): master[2] for first, last, master, *_ in ranges}

    def serves(self) -> bool:
        """The cluster is complete for this node; a replica also has its master's data."""
        if "cluster_state:ok" not in self.cluster("INFO"):
            return False
        role = self.admin.execute_command("ROLE")
        return bool(role[0] == "master" or role[3] == "connected")


class RedisCluster:
    """Its methods block, some of them for seconds: call those with `asyncio.to_thread`."""

    def __init__(self, nodes: list[ClusterNode]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """Of the ports with TLS, if there are any; its options are missing."""
        ports = [node.services_port for node in self.nodes]
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def masters(self) -> list[ClusterNode]:
        """The masters that have slots, in the order of their first slots."""
        slots = self._slots()
        return [self._node(id_) for id_ in dict.fromkeys(slots[span] for span in sorted(slots))]

    @property
    def replicas(self) -> list[ClusterNode]:
        masters = self.masters
        return [node for node in self.nodes if node.answers and node not in masters]

    def master_of(self, slot_or_key: int | str) -> ClusterNode:
        slot = slot_or_key if isinstance(slot_or_key, int) else key_slot(slot_or_key.encode())
        owner = _owner(self._slots(), slot)
        assert owner, f"no master has slot {slot}"
        return self._node(owner)

    def wait_until_ok(self) -> None:
        """The nodes that answer agree about the masters, each of which answers, and replicas have the data."""
        wait_until(self._is_ok, within_s=_PATIENCE_S)

    def move_slot(self, slot: int, to: ClusterNode) -> int:
        """Move the keys one after the other while clients use them; returns how many."""
        source = self.master_of(slot)
        if source is to:
            return 0
        to.cluster("SETSLOT", slot, "IMPORTING", source.id)
        source.cluster("SETSLOT", slot, "MIGRATING", to.id)
        moved = 0
        while keys := source.cluster("GETKEYSINSLOT", slot, 1):
            target = ("127.0.0.1", to.services_port)
            source.admin.execute_command("MIGRATE", *target, keys[0], 0, 10_000)
            moved += 1
        to.cluster("SETSLOT", slot, "NODE", to.id)
        source.cluster("SETSLOT", slot, "NODE", to.id)
        self._assign(slot, to)
        return moved

    def _assign(self, slot: int, to: ClusterNode) -> None:
        """End the move of a slot: all nodes know its new master.

        Nodes believe the master with the higher epoch. A node that learns the old master's next
        epoch before it learns of the move takes the slot back, and then no master serves it.
        """

        def is_known() -> bool:
            if all(_owner(node.slots(), slot) == to.id for node in self.nodes if node.answers):
                return True
            to.cluster("BUMPEPOCH")
            for node in self.masters:
                node.cluster("SETSLOT", slot, "NODE", to.id)
            return False

        wait_until(is_known, within_s=_PATIENCE_S, every_s=0.02)

    def _node(self, id_: str) -> ClusterNode:
        return next(node for node in self.nodes if node.id == id_)

    def _slots(self) -> dict[tuple[int, int], str]:
        return next(node for node in self.nodes if node.answers).slots()

    def _is_ok(self) -> bool:
        running = [node for node in self.nodes if node.answers]
        try:
            views = [node.slots() for node in running]
            return (
                all(view == views[0] for view in views)
                and all(self._node(id_).answers for id_ in views[0].values())
                and all(node.serves() for node in running)
            )
        except RedisError:
            return False


@contextmanager
def redis_cluster(
    folder: Path,
    *options: str,
    masters: int = 3,
    replicas: int = 1,
    node_timeout_ms: int = 2000,
    binary: Path | None = None,
    tls: TestAuthority | None = None,
) -> Iterator[RedisCluster]:
    """Starts a cluster with `replicas` of each master and contiguous ranges of slots.

    A lost master is replaced after about `node_timeout_ms` and one second. `options` are those of
    each server. With `tls`, only the commands of the test arrive without it.
    """
    nodes = [
        ClusterNode(
            folder / f"node-{number}",
            *options,
            node_timeout_ms=node_timeout_ms,
            binary=binary,
            tls=tls,
        )
        for number in range(masters * (1 + replicas))
    ]
    with ExitStack() as closing:
        for node in nodes:
            closing.enter_context(node)
            closing.callback(node.admin.close)
            node.id = node.cluster("MYID")
        _assign_slots(nodes[:masters])
        _introduce(nodes)
        for number, node in enumerate(nodes[masters:]):
            node.cluster("REPLICATE", nodes[number % masters].id)
        cluster = RedisCluster(nodes)
        cluster.wait_until_ok()
        yield cluster


def _owner(ranges: dict[tuple[int, int], str], slot: int) -> str | None:
    return next((id_ for (first, last), id_ in ranges.items() if first <= slot <= last), None)


def _assign_slots(masters: list[ClusterNode]) -> None:
    limits = [SLOTS * number // len(masters) for number in range(len(masters) + 1)]
    for epoch, (node, (first, end)) in enumerate(
        zip(masters, pairwise(limits), strict=True), start=1
    ):
        node.cluster("SET-CONFIG-EPOCH", epoch)
        node.cluster("ADDSLOTS", *range(first, end))


def _introduce(nodes: list[ClusterNode]) -> None:
    """A node forgets one that does not answer in time, so MEET is repeated."""

    def all_are_known() -> bool:
        known: str = nodes[0].cluster("NODES")
        for node in nodes[1:]:
            if node.id not in known:
                nodes[0].cluster("MEET", "127.0.0.1", node.services_port)
        return all(_knows_all(node, nodes) for node in nodes)

    wait_until(all_are_known, within_s=_PATIENCE_S, every_s=0.1)


def _knows_all(node: ClusterNode, nodes: list[ClusterNode]) -> bool:
    known: str = node.cluster("NODES")
    return "handshake" not in known and all(other.id in known for other in nodes)


def _free_ports() -> int:
    """A port for clients whose bus port is free too."""
    while not is_free((port := free_port()) + _BUS):
        pass
    return port
