"""Ids of sessions, recordings, workers and edges."""

from __future__ import annotations

import os
import platform
import re
import secrets

from antiphon.shared_schemas.states import SessionKind

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""The session ids a client may choose; others are rejected, never rewritten."""

RECORDING_ID = re.compile(r"[0-9a-f]{32}\Z")
SHARE_TOKEN = re.compile(r"share_[0-9a-f]{32}\Z")

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


def new_process_id(role: str) -> str:
    """The id of one run of a service, such as `worker-host1-4711-9f3a`; unique across restarts."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:32]
    return f"{role}-{host}-{os.getpid()}-{secrets.token_hex(2)}"
