"""Sessions whose clients may come back: leaving, coming back, being replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from redis.asyncio import Redis

from antiphon.broker.connection import call
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import Scripts
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.resume_token import ResumeToken
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedSession:
    """A session that its client is connected to again; `connection` counts from 1 (Redis-clock ms)."""

    sid: str
    connection: int
    kind: SessionKind
    ticket: int
    recording: str
    queued_at: int
    assigned: bool
    over: bool
    reason: EndReason | None


class ResumeRegistry:
    """Who is connected to which session, as far as it may be resumed."""

    def __init__(
        self, redis: Redis, keys: Keys, scripts: Scripts, settings: BrokerSettings
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._grace_ms = int(settings.resume_grace_s * 1000)

    async def attach(
        self, shown: ResumeToken, new: ResumeToken, *, edge: str, protocol: str
    ) -> ResumedSession | None:
        """Connect a client to its session, and replace its token; None when it may not come back."""
        row = await call(
            self._redis, "HMGET", self._keys.session(shown.sid), "resume", "resume_before"
        )
        current, before = (value.decode() if value else "" for value in row)
        good = [shown.matches(digest) for digest in (current, before)]
        if not any(good):
            return None
        args = (shown.sid, protocol, current, shown.digest, new.digest, edge, self._grace_ms)
        answer = await self._scripts.run("attach", *args)
        return _read(shown.sid, answer) if answer else None

    async def detach(self, sid: str, ticket: int, connection: int) -> None:
        """The client has gone, without an end: its grace begins, unless it is back already."""
        await self._scripts.run("detach", sid, ticket, connection)

    async def confirm(self, sid: str, ticket: int, connection: int) -> None:
        """The client has its new token: the one before is void."""
        await self._scripts.run("confirm", sid, ticket, connection)

    async def replaced(self, serving: Iterable[tuple[str, int, int]]) -> dict[str, int]:
        """Say which connections (sid, ticket, connection) live; returns what replaced some of them."""
        flat = [part for triple in serving for part in triple]
        answer = await self._scripts.run("attached", *flat) if flat else []
        return {sid.decode(): int(n) for sid, n in zip(answer[::2], answer[1::2], strict=True)}


def _read(sid: str, answer: list[bytes | int]) -> ResumedSession:
    text = [part.decode() if isinstance(part, bytes) else str(part) for part in answer]
    connection, kind, ticket, recording, queued_at, state, assigned, reason = text
    return ResumedSession(
        sid=sid,
        connection=int(connection),
        kind=SessionKind(kind),
        ticket=int(ticket),
        recording=recording,
        queued_at=int(queued_at),
        assigned=assigned == "1",
        over=state == SessionState.ENDED,
        reason=EndReason(reason) if reason else None,
    )
