"""What pages offer at the start: reference voices, samples of named voices, presets, defaults."""

import asyncio
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path
from fastapi.responses import FileResponse

from antiphon.broker.errors import VoicesFull
from antiphon.edge.errors import HttpError
from antiphon.edge.media.presets import Presets, PresetSounds, load_presets, preset_sounds
from antiphon.edge.media.voices import (
    bundled_sound,
    bundled_voices,
    read_voice,
    voice_samples,
    voice_sound,
)
from antiphon.edge.routes.deps import (
    NEEDS_REDIS,
    RATE_LIMITED,
    TAKES_BODY,
    EdgeDep,
    problem_responses,
)
from antiphon.edge.routes.models import FrontendDefaults, to_datetime
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    pcm16_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.voices import (
    Voice,
    VoiceChange,
    VoiceInfo,
    VoiceList,
    VoiceSound,
    VoiceUpload,
    new_voice_id,
)

MAX_BYTES = 4 * 2**20
"""Of an uploaded file."""

_MIN_S = 0.5
_MAX_S = 30.0
_FIELD = "audio_base64"

VoiceId = Annotated[str, Path(max_length=64, description="`id` of a listed voice")]

UPLOAD_PATH = "/api/assets/ref_audio"

_MP3 = "audio/mpeg"
_SAMPLE: dict[int | str, dict[str, Any]] = {
    200: {"content": {_MP3: {}}, "description": "The sound"}
}
_KEPT_A_DAY = {"Cache-Control": "private, max-age=86400"}

router = APIRouter(prefix=UPLOAD_PATH, tags=["voices"], responses=NEEDS_REDIS)
samples_router = APIRouter(prefix="/api/voices", tags=["voices"])
presets_router = APIRouter(prefix="/api/presets", tags=["voices"])
defaults_router = APIRouter(prefix="/api")


@router.get("")
async def voices(edge: EdgeDep) -> VoiceList:
    """Every voice that `ref_audio_path` may name."""
    bundled = await asyncio.to_thread(bundled_voices, edge.settings.assets_dir)
    rows = [*bundled.values(), *(_info(voice) for voice in await edge.broker.voices.all())]
    return VoiceList(total=len(rows), ref_audios=rows)


@router.post("", responses=TAKES_BODY | problem_responses(409, 429), dependencies=[RATE_LIMITED])
async def upload(edge: EdgeDep, request: VoiceUpload) -> VoiceChange:
    """Save a voice for every edge and worker. Its content decides the format, not its name."""
    try:
        samples = await asyncio.to_thread(_samples, request.audio_base64)
    except InvalidInput as error:
        status = 413 if error.code is ErrorCode.MESSAGE_TOO_LARGE else 400
        raise HttpError(status, error.code, error.message, field=error.field) from None
    voice = Voice(
        id=new_voice_id(),
        name=request.name,
        duration_ms=len(samples) * 1000 // INPUT_RATE,
        created_at=int(edge.broker.clock.now_ms()),
    )
    pcm = pcm16_bytes(samples)
    try:
        await edge.broker.voices.add(voice, pcm, at_most=edge.settings.max_voices)
    except VoicesFull as error:
        raise HttpError(409, ErrorCode.VOICES_FULL, str(error)) from None
    message = f"uploaded, {timedelta(milliseconds=voice.duration_ms).total_seconds():.1f} s"
    return VoiceChange(success=True, id=voice.id, name=voice.name, path=voice.path, message=message)


@router.get("/{voice_id}", responses=problem_responses(404))
async def sound(edge: EdgeDep, voice_id: VoiceId) -> VoiceSound:
    """The sound of one voice."""
    bundled = await asyncio.to_thread(_bundled_sound, edge.settings, voice_id)
    if bundled is not None:
        return bundled
    voice = await edge.broker.voices.get(voice_id)
    pcm = await edge.broker.voices.sound(voice_id) if voice else None
    if voice is None or pcm is None:
        raise _unknown_voice()
    return voice_sound(voice.name, float_bytes(samples_from_bytes(pcm, PcmFormat.S16)))


@router.delete("/{voice_id}", responses=problem_responses(403, 404))
async def delete(edge: EdgeDep, voice_id: VoiceId) -> VoiceChange:
    """Delete an uploaded voice. Conversations that use it continue."""
    bundled = await asyncio.to_thread(bundled_voices, edge.settings.assets_dir)
    if voice_id in bundled:
        raise HttpError(403, ErrorCode.FORBIDDEN, "this voice comes with the server")
    if not await edge.broker.voices.remove(voice_id):
        raise _unknown_voice()
    return VoiceChange(success=True, id=voice_id, message="deleted")


@samples_router.get(
    "/{voice_id}/sample", responses=_SAMPLE | problem_responses(404), response_class=FileResponse
)
async def sample(voice_id: VoiceId) -> FileResponse:
    """A few words of a voice that `voice` of a session may name, as MP3."""
    samples = await asyncio.to_thread(voice_samples)
    if voice_id not in samples:
        raise HttpError(404, ErrorCode.NOT_FOUND, "no sample of this voice")
    return FileResponse(samples[voice_id], media_type=_MP3, headers=_KEPT_A_DAY)


@presets_router.get("", response_model_exclude_unset=True)
async def presets(edge: EdgeDep) -> Presets:
    """The presets of every page, without their sounds."""
    return await asyncio.to_thread(load_presets, edge.settings.assets_dir)


@presets_router.get(
    "/{mode}/{preset_id}/audio", response_model_exclude_unset=True, responses=problem_responses(404)
)
async def preset_audio(edge: EdgeDep, mode: str, preset_id: str) -> PresetSounds:
    """The sounds of one preset."""
    sounds = await asyncio.to_thread(preset_sounds, edge.settings.assets_dir, mode, preset_id)
    if sounds is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, "no such preset")
    return sounds


@defaults_router.get("/frontend_defaults", tags=["pages"], response_model_exclude_none=True)
async def frontend_defaults(edge: EdgeDep) -> FrontendDefaults:
    """Initial settings of the pages."""
    settings = edge.settings
    return FrontendDefaults(
        playback_delay_ms=settings.playback_delay_ms, default_lang=settings.default_lang
    )


@defaults_router.get("/default_ref_audio", tags=["voices"], responses=problem_responses(404))
async def default_ref_audio(edge: EdgeDep) -> VoiceSound:
    """The voice that pages select first."""
    name = PurePosixPath(edge.settings.default_voice).stem
    bundled = await asyncio.to_thread(_bundled_sound, edge.settings, name)
    if bundled is None:
        raise HttpError(404, ErrorCode.NOT_FOUND, "no default voice on this server")
    return bundled


def _bundled_sound(settings: EdgeSettings, voice_id: str) -> VoiceSound | None:
    voice = bundled_voices(settings.assets_dir).get(voice_id)
    return bundled_sound(settings.assets_dir, voice.path) if voice is not None else None


def _samples(text: str) -> Samples:
    """Raises InvalidInput; blocks, so call it in a thread."""
    if len(text) * 3 // 4 > MAX_BYTES:
        too_long = f"{_FIELD}: more than {MAX_BYTES} bytes"
        raise InvalidInput(too_long, field=_FIELD, code=ErrorCode.MESSAGE_TOO_LARGE)
    samples = np.frombuffer(read_voice(text, _FIELD, _MAX_S), "<f4")
    if len(samples) < _MIN_S * INPUT_RATE:
        raise InvalidInput(f"{_FIELD}: shorter than {_MIN_S:g} s", field=_FIELD)
    return samples


def _info(voice: Voice) -> VoiceInfo:
    return VoiceInfo(
        id=voice.id,
        name=voice.name,
        filename=f"{voice.id}.wav",
        source_type="upload",
        duration_ms=voice.duration_ms,
        sample_rate=INPUT_RATE,
        created_at=to_datetime(voice.created_at),
        path=voice.path,
    )


def _unknown_voice() -> HttpError:
    return HttpError(404, ErrorCode.NOT_FOUND, "no such voice")
