"""Ids of sessions, recordings, workers and edges, and the token to resume a session."""

import hmac
import os
import platform
import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from antiphon.shared_schemas.states import SessionKind

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""The session ids a client may choose; others are rejected, never rewritten."""

RECORDING_ID = re.compile(r"[0-9a-f]{32}\Z")
SHARE_TOKEN = re.compile(r"share_[0-9a-f]{32}\Z")

_TOKEN_BYTES = 24
_AUDIO_PREFIXES = ("adx_", "audio_duplex_")


def is_session_id(text: str) -> bool:
    return SESSION_ID.match(text) is not None


def duplex_kind(session_id: str) -> SessionKind:
    """The variant that a `/ws/duplex` id asks for: `adx_*` and `audio_duplex_*` audio, else omni."""
    if session_id.startswith(_AUDIO_PREFIXES):
        return SessionKind.AUDIO_DUPLEX
    return SessionKind.OMNI_DUPLEX


def new_recording_id() -> str:
    """A 128-bit capability: anyone who has it can read the recording."""
    return secrets.token_hex(16)


def is_recording_id(text: str) -> bool:
    return RECORDING_ID.match(text) is not None


def new_share_token() -> str:
    """A 128-bit capability for one recording, until the link expires or is revoked."""
    return f"share_{secrets.token_hex(16)}"


def is_share_token(text: str) -> bool:
    return SHARE_TOKEN.match(text) is not None


def new_client_secret() -> str:
    """Proves that a request comes from the browser that opened a session."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def client_digest(secret: str | None) -> str:
    """What Redis stores of a client's secret; '' without one."""
    return sha256(secret.encode()).hexdigest() if secret else ""


def new_process_id(role: str) -> str:
    """The id of one run of a service, such as `worker-host1-4711-9f3a`; unique across restarts."""
    return process_id_prefix(role, os.getpid()) + secrets.token_hex(2)


def process_id_prefix(role: str, pid: int) -> str:
    """How the id of a process of this host begins."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:32]
    return f"{role}-{host}-{pid}-"


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """`<session id>.<192 random bits>`: resumes a session. Redis stores only its digest."""

    sid: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, sid: str) -> Self:
        return cls(sid, secrets.token_urlsafe(_TOKEN_BYTES))

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
