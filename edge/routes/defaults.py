"""What pages begin with: `/api/frontend_defaults` and `/api/default_ref_audio`."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath

from fastapi import APIRouter

from antiphon.edge.errors import HttpError
from antiphon.edge.routes.dependencies import EdgeDep, problem_responses
from antiphon.edge.routes.models import FrontendDefaults
from antiphon.edge.shipped import shipped_voices, sound_of
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.voices import VoiceSound

router = APIRouter(prefix="/api", tags=["defaults"])


@router.get("/frontend_defaults", response_model_exclude_none=True)
async def frontend_defaults(edge: EdgeDep) -> FrontendDefaults:
    """Settings that pages start from."""
    settings = edge.settings
    return FrontendDefaults(
        playback_delay_ms=settings.playback_delay_ms, default_lang=settings.default_lang
    )


@router.get("/default_ref_audio", responses=problem_responses(404))
async def default_ref_audio(edge: EdgeDep) -> VoiceSound:
    """The voice that pages offer first."""
    name = PurePosixPath(edge.settings.default_voice).stem
    voices = await asyncio.to_thread(shipped_voices, edge.settings.assets_dir)
    if name not in voices:
        raise HttpError(404, ErrorCode.NOT_FOUND, "no default voice on this server")
    return await asyncio.to_thread(sound_of, voices[name].file)
