"""Every Redis key, its type and its life time.

Two families, so that Redis Cluster works: what must change together carries the tag `{prefix}` (one
slot, small values); the heavy streams carry `{sid}` and spread over all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Builds key names under one prefix (`antiphon` unless configured)."""

    prefix: str = "antiphon"

    @property
    def control(self) -> str:
        """Start of every control key; scripts append `session:<sid>` and `worker:<id>` to it."""
        return f"{{{self.prefix}}}:"

    @property
    def queue(self) -> str:
        """ZSET session id → ticket number. Lives as long as anyone waits."""
        return self.control + "queue"

    @property
    def leases(self) -> str:
        """ZSET session id → lease expiry (ms)."""
        return self.control + "leases"

    @property
    def workers(self) -> str:
        """ZSET worker id → last heartbeat (ms)."""
        return self.control + "workers"

    @property
    def edges(self) -> str:
        """ZSET edge id → last heartbeat (ms)."""
        return self.control + "edges"

    @property
    def events(self) -> str:
        """STREAM of session transitions, trimmed to about 100,000 entries."""
        return self.control + "events"

    @property
    def eta(self) -> str:
        """HASH `baseline:<kind>`, `ema:<kind>`, `count:<kind>` (seconds), `alpha`. Permanent."""
        return self.control + "eta"

    @property
    def apps(self) -> str:
        """HASH app id → `off`, for every page that is switched off. Permanent."""
        return self.control + "apps"

    @property
    def ref_audio(self) -> str:
        """HASH voice id → JSON (name, duration, creation); the sound lies apart. Permanent."""
        return self.control + "ref_audio"

    @property
    def config(self) -> str:
        """HASH `contract`: version of all of this (docs/REDIS_KEYS.md). Permanent."""
        return self.control + "config"

    @property
    def tickets(self) -> str:
        """STRING, last ticket number. Permanent."""
        return self.control + "tickets"

    @property
    def reaper(self) -> str:
        """HASH `last`, `quiet_until` (ms): when the upkeep ran, and until when it spares everyone."""
        return self.control + "reaper"

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
        """ZSET share token → expiry (ms, inf for never), of one recording; lives as long as its links."""
        return f"{self.control}shares:{recording}"

    def voice(self, voice_id: str) -> str:
        """STRING, an uploaded voice as 16-bit PCM; lives as long as its row in `ref_audio`."""
        return f"{self.prefix}:voice:{{{voice_id}}}"

    def inbound(self, sid: str) -> str:
        """STREAM client → worker; removed once recorded, or expires when nobody writes."""
        return f"{self.prefix}:in:{{{sid}}}"

    def outbound(self, sid: str) -> str:
        """STREAM worker → edge; removed once recorded, or expires when nobody writes."""
        return f"{self.prefix}:out:{{{sid}}}"

    def checkpoints(self, sid: str) -> str:
        """STREAM of what an edge notes for a client that may resume; lives as the other two do."""
        return f"{self.prefix}:told:{{{sid}}}"

    def prepare(self, sid: str) -> str:
        """STREAM of one entry, the `prepare` that a worker accepted; lives as `outbound` does."""
        return f"{self.prefix}:begun:{{{sid}}}"

    @property
    def every_stream(self) -> tuple[str, ...]:
        """Patterns that all streams match, of whatever session."""
        return self.inbound("*"), self.outbound("*"), self.checkpoints("*"), self.prepare("*")

    def sid_of(self, key: str) -> str:
        """The session that a stream, or a row, belongs to."""
        row = self.session("")
        return key.removeprefix(row) if key.startswith(row) else key[key.index("{") + 1 : -1]

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
        ]
