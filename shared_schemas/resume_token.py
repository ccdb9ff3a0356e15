"""The secret with which a client resumes its session."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from antiphon.shared_schemas.ids import is_session_id

_SECRET_BYTES = 24


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """`<session id>.<192 random bits>`. Redis stores only its digest."""

    sid: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, sid: str) -> Self:
        return cls(sid, secrets.token_urlsafe(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Inverse of `text`; None for anything else."""
        sid, _, secret = text.partition(".")
        return cls(sid, secret) if is_session_id(sid) and secret else None

    @property
    def text(self) -> str:
        return f"{self.sid}.{self.secret}"

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        """Compare in constant time; an empty digest matches nothing."""
        return hmac.compare_digest(self.digest, digest)
