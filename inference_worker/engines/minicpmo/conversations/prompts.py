"""Turn-based prompts: a message as parts, and parts as the text and embeddings that the model expects."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import assert_never

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from antiphon.inference_worker.engines.common.pictures import read_picture
from antiphon.inference_worker.engines.common.video import InvalidVideo, VideoBudget
from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    Piece,
    encode_clips,
    encode_images,
)
from antiphon.inference_worker.engines.minicpmo.model.audio import clip_embedding_count
from antiphon.inference_worker.engines.minicpmo.preprocess.images import (
    SlicedImage,
    slice_image,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import HOP, clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.preprocess.videos import (
    MIN_CLIP_SAMPLES,
    read_video,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
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

AUDIO_MARK, IMAGE_MARK = "\0audio\0", "\0image\0"
"""Placeholders of embeddings. Client text cannot contain them, because NUL is removed from it."""

USER_CLOSING = "<|im_end|>\n"
ANSWER_OPENING = "<|im_start|>assistant\n<think>\n\n</think>\n\n<|tts_bos|>"
"""Opens a turn of the model that does not think, and may be spoken."""


@dataclass(frozen=True, slots=True, eq=False)
class AudioClip:
    """`count` embeddings (None for all) of the audio with the log-mels `mels`, in pieces of up to 30 s.

    Clips with the same `mels` object are encoded as one audio stream.
    """

    mels: list[Tensor]
    start: int = 0
    count: int | None = None


PromptPart = str | AudioClip | SlicedImage


PromptTurn = tuple[str, Sequence[PromptPart]]
"""The role and its parts in order."""


def message_text(parts: Sequence[PromptPart], *, joint: str, first_image_id: int | None) -> str:
    """Parts as text with a placeholder per embedding. Images are numbered from `first_image_id`."""
    number = first_image_id
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part.replace("\0", ""))
        elif isinstance(part, AudioClip):
            texts.append(f"<|audio_start|>{AUDIO_MARK}<|audio_end|>")
        else:
            texts.append(_image_text(part, number))
            number = None if number is None else number + 1
    return joint.join(texts)


def embed_prompt(
    tokenizer: Tokenizer, text: str, parts: Sequence[PromptPart], *, full_attention: bool
) -> Steps[list[Piece]]:
    """`text` as pieces to feed, with the embeddings of `parts` in place of the placeholders.

    All clips are encoded in one batch, like in the reference: the end of a shorter clip depends on
    the longest one.
    """
    audio = yield from _encode_clips(parts, full_attention=full_attention)
    images = iter(
        (yield from encode_images([part for part in parts if isinstance(part, SlicedImage)]))
    )
    pieces: list[Piece] = []
    for segment in re.split(f"({AUDIO_MARK}|{IMAGE_MARK})", text):
        if segment == AUDIO_MARK:
            pieces.append(next(audio))
        elif segment == IMAGE_MARK:
            pieces.append(next(images))
        else:
            ids = tokenizer.encode(segment)
            pieces.append(tuple(token for token in ids if token != tokenizer.ids.listen))
    return pieces


def _image_text(image: SlicedImage, number: int | None) -> str:
    label = "" if number is None else f"<image_id>{number}</image_id>"
    cells = [f"<slice>{IMAGE_MARK}</slice>"] * (len(image.pixels) - 1)
    per_row = image.columns or 1
    rows = ["".join(cells[at : at + per_row]) for at in range(0, len(cells), per_row)]
    return f"{label}<image>{IMAGE_MARK}</image>" + "\n".join(rows)


def _encode_clips(parts: Sequence[PromptPart], *, full_attention: bool) -> Steps[Iterator[Tensor]]:
    clips = [part for part in parts if isinstance(part, AudioClip)]
    if not clips:
        return iter(())
    audio = {id(clip.mels): clip.mels for clip in clips}
    pieces = [piece for mels in audio.values() for piece in mels]
    rest = iter((yield from encode_clips(pieces, full_attention=full_attention)))
    whole = {key: torch.cat([next(rest) for _ in mels]) for key, mels in audio.items()}
    return iter([_part_of(whole[id(clip.mels)], clip) for clip in clips])


def _part_of(sound: Tensor, clip: AudioClip) -> Tensor:
    end = None if clip.count is None else clip.start + clip.count
    return sound[clip.start : end]


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
    audio = [piece for piece in pieces if isinstance(piece, np.ndarray)]
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
            yield _padded(part.samples())
        case ImagePart(data):
            most = reading.max_slices or settings.max_slice_nums
            yield slice_image(read_picture(data), settings, most)
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
