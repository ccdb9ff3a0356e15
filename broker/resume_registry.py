"""Sessions that a client may resume: its token, its connection, and its absence."""

from dataclasses import dataclass

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.rows import call_on_row, read_row, whole_number
from antiphon.broker.scripts import Scripts, control_script
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState

_CONCURRENT_ATTEMPTS = 8
"""Attempts of one client that may replace the token between a read of its digest and the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedSession:
    """A session that its client has resumed; `connection` counts from 1, `queued_at` is Redis-clock ms.

    `assigned`: a worker has had it. `recovering`: it has lost its worker and waits for another one.
    """

    sid: str
    connection: int
    kind: SessionKind
    ticket: int
    recording: str
    queued_at: int
    assigned: bool
    recovering: bool
    over: bool
    reason: EndReason | None


@dataclass(frozen=True, slots=True)
class ResumeRecord:
    """The newest resume of a session, as its edge knows it. `digest`: that of the client's token.

    `before`: digest of the token that the client has shown; '' once it is void. `attempt`: see `attach`.
    """

    sid: str
    ticket: int
    connection: int
    digest: str
    before: str
    attempt: int


@control_script
def _attach(
    reply: list[bytes | int],
    sid: str,
    protocol: str,
    current: str,
    shown: str,
    next_digest: str,
    edge: str,
    grace_ms: int,
    attempt: int,
) -> ResumedSession | None:
    return read_row(f"session:{sid}", lambda: _read_resumed(sid, reply)) if reply else None


def _read_resumed(sid: str, reply: list[bytes | int]) -> ResumedSession:
    text = [part.decode() if isinstance(part, bytes) else str(part) for part in reply]
    connection, kind, ticket, recording, queued_at, state, assigned, reason, recovering = text
    return ResumedSession(
        sid=sid,
        connection=whole_number(connection),
        kind=SessionKind(kind),
        ticket=whole_number(ticket),
        recording=recording,
        queued_at=whole_number(queued_at),
        assigned=assigned == "1",
        recovering=recovering == "1",
        over=state == SessionState.ENDED,
        reason=EndReason(reason) if reason else None,
    )


@control_script
def _detach(reply: int, sid: str, ticket: int, connection: int) -> None:
    return None


@control_script
def _restore_resume(
    reply: int,
    sid: str,
    ticket: int,
    connection: int,
    digest: str,
    before: str,
    attempt: int,
    edge: str,
) -> bool:
    return reply == 1


@control_script
def _confirm(reply: int, sid: str, ticket: int, connection: int) -> None:
    return None


class ResumeRegistry:
    """Which connection serves which resumable session."""

    def __init__(
        self, redis: RedisClient, keys: Keys, scripts: Scripts, settings: BrokerSettings
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._grace_ms = int(settings.resume_grace_s * 1000)

    async def attach(
        self, shown: ResumeToken, new: ResumeToken, *, edge: str, protocol: str, attempt: int = 0
    ) -> ResumedSession | None:
        """Connect a client to its session and replace its token; None when it may not resume.

        `attempt`: number of the client's attempt, 0 if it does not count them. The newest one wins.
        """
        current, before = await self._digests(shown.sid)
        for _ in range(_CONCURRENT_ATTEMPTS):
            if not any([shown.matches(current), shown.matches(before)]):
                return None
            args = (shown.sid, protocol, current, shown.digest, new.digest, edge, self._grace_ms)
            if attached := await self._scripts.run(_attach, *args, attempt):
                return attached
            checked, (current, before) = current, await self._digests(shown.sid)
            if current == checked:
                return None
        return None

    async def _digests(self, sid: str) -> tuple[str, str]:
        """Of the current token and the one before it; empty if there is none."""
        names = ("resume", "resume_before")
        row = await call_on_row(self._redis, "HMGET", self._keys.session(sid), *names)
        current, before = (
            value.decode("ascii", errors="ignore") if value else "" for value in row or (b"", b"")
        )
        return current, before

    async def restore(self, record: ResumeRecord, *, edge: str) -> bool:
        """Store a resume that a failover has lost. False if Redis has it, or a newer one."""
        session = (record.sid, record.ticket, record.connection)
        tokens = (record.digest, record.before, record.attempt)
        return await self._scripts.run(_restore_resume, *session, *tokens, edge)

    async def detach(self, sid: str, ticket: int, connection: int) -> None:
        """Start the grace period of a client that has left, unless it has reconnected already."""
        await self._scripts.run(_detach, sid, ticket, connection)

    async def confirm(self, sid: str, ticket: int, connection: int) -> None:
        """Void the previous token: the client has the new one."""
        await self._scripts.run(_confirm, sid, ticket, connection)
