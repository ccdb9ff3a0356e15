"""Every Redis key, its type and its lifetime.

Two families, so that Redis Cluster works. Keys that change together carry the tag `{prefix}` (one slot,
small values). The streams, which are large, carry the tag of their shard.

All streams of a shard have one hash tag, so they are in one slot and one XREAD can read them. The slots
of the shards are spread evenly over the slots, so masters with equal ranges of slots get equal numbers
of shards.
"""

import functools
import itertools
from typing import Generic, Self, TypeVar, get_args

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from antiphon.shared_schemas.entries import (
    InEntry,
    OutEntry,
    PastEntry,
    PastItems,
    StreamEntry,
)

STREAM_SHARDS = 128
"""Stored beside the version of the keys. Another number moves the streams to other keys."""


def shard_tag(sid: str) -> str:
    """The hash tag of a session's streams: that of the shard whose range has the slot of the id."""
    return _tags()[_shard_of(sid)]


def _shard_of(text: str) -> int:
    return key_slot(text.encode()) * STREAM_SHARDS // REDIS_CLUSTER_HASH_SLOTS


@functools.cache
def _tags() -> dict[int, str]:
    """For each shard the first of `s0`, `s1`, … whose slot is in its range of slots."""
    tags: dict[int, str] = {}
    numbers = itertools.count()
    while len(tags) < STREAM_SHARDS:
        tag = f"s{next(numbers)}"
        tags.setdefault(_shard_of(tag), tag)
    return tags


EntryT = TypeVar("EntryT", bound=StreamEntry, covariant=True)

OPEN_SESSION_TTL_S = 30 * 86_400
"""Expiry of what a session needs until it ends. No likely jump of Redis' clock is as long."""

STREAM_NAMES = ("in", "out", "past")


class StreamKey(str, Generic[EntryT]):
    """The key of a stream, typed by the entries that the stream holds."""

    entries: tuple[type[EntryT], ...]

    def __new__(cls, name: str, entries: tuple[type[EntryT], ...]) -> Self:
        key = super().__new__(cls, name)
        key.entries = entries
        return key


class Keys:
    """Builds key names under one prefix (`antiphon` unless configured)."""

    def __init__(self, prefix: str = "antiphon") -> None:
        self.prefix = prefix
        self.control = f"{{{prefix}}}:"
        """Start of every control key; scripts append `session:<sid>` and `worker:<id>` to it."""
        self.queue = self.control + "queue"
        """ZSET session id → ticket number. Exists while sessions wait."""
        self.leases = self.control + "leases"
        """ZSET session id → lease expiry (ms)."""
        self.workers = self.control + "workers"
        """ZSET worker id → last heartbeat (ms)."""
        self.edges = self.control + "edges"
        """ZSET edge id → last heartbeat (ms)."""
        self.events = self.control + "events"
        """STREAM of session transitions, trimmed to about 100,000 entries."""
        self.eta = self.control + "eta"
        """HASH `baseline:<kind>`, `ema:<kind>`, `count:<kind>` (seconds), `alpha`. Permanent."""
        self.apps = self.control + "apps"
        """HASH app id → `off`, for every page that is disabled. Permanent."""
        self.ref_audio = self.control + "ref_audio"
        """HASH voice id → JSON (name, duration, creation); the audio has a separate key. Permanent."""
        self.config = self.control + "config"
        """HASH `contract`, `shards`: version of all of this (docs/redis-keys.md). Permanent."""
        self.tickets = self.control + "tickets"
        """STRING, last ticket number. Permanent."""
        self.reaper = self.control + "reaper"
        """HASH `last`, `quiet_until`, `regular_since`, `restarted_at` (ms): when the reaper ran, until
        when it ends nothing, since when it has run each second, and when it restarted all timers."""
        self.trials = self.control + "trials"
        """ZSET session id → end of its trial (ms). Exists while sessions are on trial."""

    def session(self, sid: str) -> str:
        """HASH, one session's row; expires an hour after the session ended."""
        return f"{self.control}session:{sid}"

    def worker(self, worker_id: str) -> str:
        """HASH, one worker's row; removed by the reaper when its heartbeat stops."""
        return f"{self.control}worker:{worker_id}"

    def recorded(self, ticket: int) -> str:
        """HASH, a recorder's progress in one session; removed when the recording is complete."""
        return f"{self.control}recorded:{ticket}"

    def share(self, token: str) -> str:
        """STRING, the recording that a share link opens; lives until the link expires."""
        return f"{self.control}share:{token}"

    def shares(self, recording: str) -> str:
        """ZSET share token → expiry (ms, inf for never), of one recording; exists while it has links."""
        return f"{self.control}shares:{recording}"

    def voice(self, voice_id: str) -> str:
        """STRING, an uploaded voice as 16-bit PCM; same lifetime as its row in `ref_audio`."""
        return f"{self.prefix}:voice:{{{voice_id}}}"

    def inbound(self, sid: str) -> StreamKey[InEntry]:
        """STREAM client → worker; emptied once recorded, or expires after the session's end."""
        return StreamKey[InEntry](self._stream("in", sid), get_args(InEntry))

    def outbound(self, sid: str) -> StreamKey[OutEntry]:
        """STREAM worker → edge; emptied once recorded, or expires after the session's end."""
        return StreamKey[OutEntry](self._stream("out", sid), get_args(OutEntry))

    def past(self, sid: str) -> StreamKey[PastEntry]:
        """STREAM of the accepted `prepare` and the older units or turns; same lifetime as `outbound`."""
        return StreamKey[PastEntry](self._stream("past", sid), get_args(PastEntry))

    def past_items(self, sid: str) -> StreamKey[PastItems]:
        """The same stream of a session of the kind `turns`: its items, of which the last entry has all."""
        return StreamKey[PastItems](self._stream("past", sid), (PastItems,))

    def _stream(self, name: str, sid: str) -> str:
        return f"{self.prefix}:{name}:{{{shard_tag(sid)}}}:{sid}"

    def streams(self, sid: str) -> tuple[str, ...]:
        """All streams of one session; one cluster slot."""
        return (
            self.inbound(sid),
            self.outbound(sid),
            self.past(sid),
        )

    def stream_patterns(self) -> list[str]:
        """Patterns for SCAN that match the streams of all sessions."""
        return [f"{self.prefix}:{name}:{{*}}:*" for name in STREAM_NAMES]

    def sid_of(self, key: str) -> str:
        """The session that a stream, or a row, belongs to."""
        return key.rpartition(":")[2]

    def script_keys(self) -> list[str]:
        """KEYS of every script, in the order `lua/prelude.lua` names them; one cluster slot."""
        return [
            self.queue,
            self.leases,
            self.workers,
            self.edges,
            self.events,
            self.eta,
            self.tickets,
            self.reaper,
            self.trials,
        ]
