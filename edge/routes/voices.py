"""`/api/assets/ref_audio`: the reference voices of the package, and those that users uploaded."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Path, Request

from antiphon.broker.errors import VoicesFull
from antiphon.edge.context import EdgeContext
from antiphon.edge.errors import HttpError, TooManyConnections
from antiphon.edge.routes.dependencies import NEEDS_REDIS, EdgeDep, problem_responses
from antiphon.edge.routes.views import instant
from antiphon.edge.shipped import shipped_voices, sound_of, voice_sound
from antiphon.edge.voices import read_voice
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    samples_from_bytes,
    to_pcm16,
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

_SHORTEST_S = 0.5
_FIELD = "audio_base64"

VoiceId = Annotated[str, Path(max_length=64, description="`id` of a listed voice")]


async def counted(edge: EdgeDep, request: Request) -> None:
    """One arrival of this address, as a connection is. Raises HttpError."""
    try:
        edge.visitors.arrive(edge.access.visitor(request))
    except TooManyConnections as error:
        raise HttpError(429, ErrorCode.RATE_LIMITED, str(error), retry_after_s=60) from None


router = APIRouter(prefix="/api/assets/ref_audio", tags=["voices"], responses=NEEDS_REDIS)


@router.get("")
async def voices(edge: EdgeDep) -> VoiceList:
    """Every voice that `ref_audio_path` may name."""
    shipped = await asyncio.to_thread(shipped_voices, edge.settings.assets_dir)
    rows = [voice.info() for voice in shipped.values()]
    rows += [_info(voice) for voice in await edge.broker.voices.all()]
    return VoiceList(total=len(rows), ref_audios=rows)


@router.post("", responses=problem_responses(400, 409, 413, 429), dependencies=[Depends(counted)])
async def upload(edge: EdgeDep, request: VoiceUpload) -> VoiceChange:
    """Keep a voice, for every edge and worker. The sound is judged by what it is, not by its name."""
    try:
        samples = await asyncio.to_thread(_samples, edge, request.audio_base64)
    except InvalidInput as error:
        status = 413 if error.code is ErrorCode.MESSAGE_TOO_LARGE else 400
        raise HttpError(status, error.code, error.message) from None
    voice = Voice(
        id=new_voice_id(),
        name=request.name.strip(),
        duration_ms=len(samples) * 1000 // INPUT_RATE,
        created_at=int(edge.broker.clock.now_ms()),
    )
    await _keep(edge, voice, to_pcm16(samples).astype("<i2").tobytes())
    message = f"uploaded, {timedelta(milliseconds=voice.duration_ms).total_seconds():.1f} s"
    return VoiceChange(success=True, id=voice.id, name=voice.name, path=voice.path, message=message)


@router.get("/{voice_id}", responses=problem_responses(404))
async def listen(edge: EdgeDep, voice_id: VoiceId) -> VoiceSound:
    """One voice to listen to."""
    shipped = await asyncio.to_thread(shipped_voices, edge.settings.assets_dir)
    if voice_id in shipped:
        return await asyncio.to_thread(sound_of, shipped[voice_id].file)
    voice = await edge.broker.voices.get(voice_id)
    pcm = await edge.broker.voices.sound(voice_id) if voice else None
    if voice is None or pcm is None:
        raise _unknown()
    return voice_sound(voice.name, float_bytes(samples_from_bytes(pcm, PcmFormat.S16)))


@router.delete("/{voice_id}", responses=problem_responses(403, 404))
async def delete(edge: EdgeDep, voice_id: VoiceId) -> VoiceChange:
    """Forget an uploaded voice; conversations that speak with it go on."""
    shipped = await asyncio.to_thread(shipped_voices, edge.settings.assets_dir)
    if voice_id in shipped:
        raise HttpError(403, ErrorCode.FORBIDDEN, "this voice comes with the server")
    if not await edge.broker.voices.remove(voice_id):
        raise _unknown()
    return VoiceChange(success=True, id=voice_id, message="deleted")


async def _keep(edge: EdgeContext, voice: Voice, pcm: bytes) -> None:
    try:
        await edge.broker.voices.add(voice, pcm, at_most=edge.settings.max_voices)
    except VoicesFull as error:
        raise HttpError(409, ErrorCode.VOICES_FULL, str(error)) from None


def _samples(edge: EdgeContext, text: str) -> Samples:
    """Raises InvalidInput; blocks, so call it in a thread."""
    limits = edge.settings
    if len(text) * 3 // 4 > limits.max_voice_bytes:
        too_long = f"{_FIELD}: more than {limits.max_voice_bytes} bytes"
        raise InvalidInput(too_long, field=_FIELD, code=ErrorCode.MESSAGE_TOO_LARGE)
    samples = np.frombuffer(read_voice(text, _FIELD, limits.max_voice_s), "<f4")
    if len(samples) < _SHORTEST_S * INPUT_RATE:
        raise InvalidInput(f"{_FIELD}: shorter than {_SHORTEST_S:g} s", field=_FIELD)
    return samples


def _info(voice: Voice) -> VoiceInfo:
    return VoiceInfo(
        id=voice.id,
        name=voice.name,
        filename=f"{voice.id}.wav",
        source_type="upload",
        duration_ms=voice.duration_ms,
        sample_rate=INPUT_RATE,
        created_at=instant(voice.created_at),
        path=voice.path,
    )


def _unknown() -> HttpError:
    return HttpError(404, ErrorCode.NOT_FOUND, "no such voice")
