"""A client's message as parts of a prompt: pictures cut, sound turned into log-mel."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from inference_worker.engines.minicpmo.config import SliceConfig
from inference_worker.engines.minicpmo.images import cut, decode_picture
from inference_worker.engines.minicpmo.mel import clip_mels
from inference_worker.engines.minicpmo.prompts import Clip, Part
from inference_worker.engines.types import UnsupportedContent
from shared_schemas.audio import Samples
from shared_schemas.content import AudioPart, ImagePart, Message, TextPart, VideoPart

SHORTEST_CLIP = 1600
"""Samples below which a clip yields no embedding; it is completed with silence."""


def read_message(message: Message, settings: SliceConfig, *, max_slices: int) -> list[Part]:
    """The parts of a message. Raises UnsupportedContent for video, EngineError for a bad picture."""
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case TextPart(text):
                parts.append(text)
            case AudioPart():
                parts.append(_clip(part.samples()))
            case ImagePart(data):
                parts.append(cut(decode_picture(data), settings, max_slices))
            case VideoPart():
                raise UnsupportedContent("send a video as its frames and its sound", "video")
            case _:
                assert_never(part)
    return parts


def _clip(samples: Samples) -> Clip:
    missing = max(0, SHORTEST_CLIP - len(samples))
    return Clip(clip_mels(np.pad(samples, (0, missing))))
