"""Reference voices that a client names by path instead of sending them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from antiphon.edge.media import as_float32, check_audio
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.shipped import find_shipped
from antiphon.edge.voices import read_wav
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.media import Raw
from antiphon.shared_schemas.voices import UPLOADED

_FIELD = "ref_audio_path"

Uploads = Callable[[str], Awaitable[bytes | None]]
"""An uploaded voice's 16-bit PCM by its id; None when there is none."""


async def no_uploads(_: str) -> bytes | None:
    """Where nothing but shipped voices can be named."""
    return None


async def find_reference(
    settings: EdgeSettings, uploads: Uploads, name: str, field: str = _FIELD
) -> bytes:
    """A named voice as float32 mono PCM at 16 kHz: `uploaded:<id>`, or a path below the assets.

    Raises InvalidInput, or BrokerUnavailable when uploaded voices cannot be looked up now.
    """
    limit = settings.max_reference_s
    if name.startswith(UPLOADED):
        return await _uploaded(uploads, name.removeprefix(UPLOADED), field, limit)
    assets, default = settings.assets_dir, settings.default_voice
    return await asyncio.to_thread(
        load_reference, assets, name, limit, field=field, default=default
    )


def load_reference(
    assets: Path, name: str, max_s: float, *, field: str = _FIELD, default: str = ""
) -> bytes:
    """A shipped WAV as float32 mono PCM at 16 kHz; blocks, so call it in a thread.

    `name` is relative to the assets folder, with or without a leading `assets/`. Raises InvalidInput
    for anything outside of that folder, missing, too long, or no WAV.
    """
    return read_wav(find_shipped(assets, name, default, field), field, max_s)


async def _uploaded(uploads: Uploads, voice_id: str, field: str, max_s: float) -> bytes:
    stored = await uploads(voice_id) if voice_id.isalnum() and voice_id.isascii() else None
    if stored is None:
        raise InvalidInput(f"{field}: no such uploaded voice", field=field)
    voice = Raw(stored, PcmFormat.S16)
    check_audio(voice, field, max_s)
    return as_float32(voice)
