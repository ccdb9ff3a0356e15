"""Turn-based prompts: text, audio and images of a message in the order the model expects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EncodeClips, Steps
from antiphon.inference_worker.engines.minicpmo.sessions.context import encode_images

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
    tokenizer: Tokenizer, text: str, parts: Sequence[PromptPart], *, full_attention: bool = False
) -> Steps[list[Tensor | tuple[int, ...]]]:
    """`text` as pieces to feed, with the embeddings of `parts` in place of the placeholders.

    All clips are encoded in one batch, like in the reference: the end of a shorter clip depends on
    the longest one.
    """
    audio = yield from _encode_clips(parts, full_attention=full_attention)
    images = iter(
        (yield from encode_images([part for part in parts if isinstance(part, SlicedImage)]))
    )
    pieces: list[Tensor | tuple[int, ...]] = []
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
    encoded: list[Tensor] = yield EncodeClips(pieces, full_attention)
    rest = iter(encoded)
    whole = {key: torch.cat([next(rest) for _ in mels]) for key, mels in audio.items()}
    return iter([_part_of(whole[id(clip.mels)], clip) for clip in clips])


def _part_of(sound: Tensor, clip: AudioClip) -> Tensor:
    end = None if clip.count is None else clip.start + clip.count
    return sound[clip.start : end]
