"""A recording as a share link shows it: under the link's token, without the id that would open more."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE

DISGUISED = (META_FILE, RECORDING_FILE)
"""The files that tell the id."""


def disguise(data: bytes, token: str) -> bytes:
    """The JSON of such a file with the token in the id's place. Raises ValueError for other data."""
    content: dict[str, Any] = orjson.loads(data)
    if "recording_id" in content:
        content["recording_id"] = token
    return orjson.dumps(content, option=orjson.OPT_INDENT_2)
