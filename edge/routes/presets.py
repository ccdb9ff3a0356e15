"""`/api/presets`: prompts and voices that pages offer."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from antiphon.edge.errors import HttpError
from antiphon.edge.presets import load_presets, preset_sounds
from antiphon.edge.routes.dependencies import EdgeDep, problem_responses
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.presets import Presets, PresetSounds

router = APIRouter(prefix="/api/presets", tags=["presets"])


@router.get("", response_model_exclude_unset=True)
async def presets(edge: EdgeDep) -> Presets:
    """Every page's presets, without their sounds."""
    return await asyncio.to_thread(load_presets, edge.settings.assets_dir)


@router.get(
    "/{mode}/{preset_id}/audio", response_model_exclude_unset=True, responses=problem_responses(404)
)
async def preset_audio(edge: EdgeDep, mode: str, preset_id: str) -> PresetSounds:
    """The sounds of one preset, loaded when a user picks it."""
    sounds = await asyncio.to_thread(preset_sounds, edge.settings.assets_dir, mode, preset_id)
    if sounds is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, "no such preset")
    return sounds
