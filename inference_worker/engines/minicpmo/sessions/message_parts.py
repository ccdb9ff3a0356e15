"""Turns a client's message into prompt parts: slices images, computes log-mels, splits videos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import assert_never

import numpy as np
from PIL import Image

from antiphon.inference_worker.engines.common.video import InvalidVideo, VideoBudget
from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.model.audio import clip_embedding_count
from antiphon.inference_worker.engines.minicpmo.preprocess.images import (
    SlicedImage,
    decode_image,
    slice_image,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import HOP, clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.videos import (
    MIN_CLIP_SAMPLES,
    read_video,
)
from antiphon.inference_worker.engines.minicpmo.sessions.prompts import AudioClip, PromptPart
from antiphon.inference_worker.engines.types import EngineError, UnsupportedContent
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.content import Part as Sent

VIDEO_SLICES = 1
"""Slices of a video frame if the client gives no number."""

ContentPiece = str | Samples | SlicedImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read messages. `max_slices` is the limit per image, None for the model's default.

    `merge_audio` joins all audio of a message, as in a chat; otherwise each clip is separate.
    `videos` limits the total cost of all videos.
    """

    settings: SliceConfig
    max_slices: int | None = None
    merge_audio: bool = False
    videos: VideoBudget = field(default_factory=VideoBudget)


def read_message(
    message: ConversationMessage, reading: ReadOptions, where: str
) -> list[PromptPart]:
    """The parts of a message. Raises UnsupportedContent with the path of the part below `where`."""
    pieces = [
        piece
        for place, part in enumerate(message.parts)
        for piece in _pieces_or_error(part, reading, f"{where}.{place}")
    ]
    audio = [_padded(piece) for piece in pieces if isinstance(piece, np.ndarray)]
    separate = (AudioClip(clip_mels(samples)) for samples in audio)
    clips = iter(_merged_clips(audio)) if reading.merge_audio else separate
    return [next(clips) if isinstance(piece, np.ndarray) else piece for piece in pieces]


def _pieces_or_error(part: Sent, reading: ReadOptions, where: str) -> list[ContentPiece]:
    try:
        return list(_pieces(part, reading))
    except (InvalidVideo, EngineError) as error:
        raise UnsupportedContent(str(error), where) from error


def _pieces(part: Sent, reading: ReadOptions) -> Iterator[ContentPiece]:
    settings = reading.settings
    match part:
        case TextPart(text):
            yield text
        case AudioPart():
            yield part.samples()
        case ImagePart(data):
            most = reading.max_slices or settings.max_slice_nums
            yield slice_image(decode_image(data), settings, most)
        case VideoPart(data, stack_frames):
            yield from _video_pieces(data, stack_frames, reading)
        case _:
            assert_never(part)


def _video_pieces(data: bytes, stack_frames: int, reading: ReadOptions) -> Iterator[ContentPiece]:
    """The frame of each second, its audio, and the contact sheet of the frames between."""

    def sliced(image: Image.Image) -> SlicedImage:
        return slice_image(image, reading.settings, reading.max_slices or VIDEO_SLICES)

    for segment in read_video(data, stack_frames, reading.videos):
        yield sliced(segment.frame)
        if segment.audio is not None:
            yield segment.audio
        if segment.between is not None:
            yield sliced(segment.between)


def _padded(samples: Samples) -> Samples:
    return np.pad(samples, (0, max(0, MIN_CLIP_SAMPLES - len(samples))))


def _merged_clips(audio: list[Samples]) -> list[AudioClip]:
    """Each clip as a part of one log-mel: the audio encoder continues from one clip to the next."""
    whole = clip_mels(np.concatenate(audio)) if audio else []
    counts = [clip_embedding_count(-(-len(samples) // HOP)) for samples in audio]
    starts = accumulate(counts, initial=0)
    return [AudioClip(whole, *place) for place in zip(starts, counts, strict=False)]
