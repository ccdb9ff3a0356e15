"""Content parts as clients send them in a list: `{type, text}` or `{type, data}` with base64."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.shared_schemas.media import Media
from antiphon.shared_schemas.wire import ClientMessage


class TextItem(ClientMessage):
    """Words."""

    type: Literal["text"]
    text: str


class AudioItem(ClientMessage):
    """Base64 of float32 PCM, mono, 16 kHz."""

    type: Literal["audio"]
    data: Media
    sample_rate: Literal[16000] = 16000


class ImageItem(ClientMessage):
    """Base64 of a JPEG, PNG or WebP file."""

    type: Literal["image"]
    data: Media


class VideoItem(ClientMessage):
    """Base64 of an MP4, MOV or WebM file; `stack_frames` frames are taken for each second."""

    type: Literal["video"]
    data: Media
    stack_frames: int = Field(default=1, ge=1, le=8)


Item = Annotated[TextItem | AudioItem | ImageItem | VideoItem, Field(discriminator="type")]
