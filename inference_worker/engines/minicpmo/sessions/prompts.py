"""Turn-based prompts: text, sound and pictures of a message in the order the model knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EncodeClips, Steps
from antiphon.inference_worker.engines.minicpmo.sessions.media_input import encode_images

AUDIO_MARK, IMAGE_MARK = "\0sound\0", "\0sight\0"
"""Where embeddings go; no client's text can hold them, for NUL is taken out of it."""

ANSWER_OPENING = "<|im_end|>\n<|im_start|>assistant\n"
NO_THOUGHT = "<think>\n\n</think>\n\n"
SPEECH_OPENING = "<|tts_bos|>"


@dataclass(frozen=True, slots=True, eq=False)
class AudioClip:
    """Of the sound whose log-mel is `mels`, in pieces of up to 30 s: `count` embeddings, None for all.

    Clips that share one `mels` are heard as one sound.
    """

    mels: list[Tensor]
    start: int = 0
    count: int | None = None


PromptPart = str | AudioClip | SlicedImage


PromptTurn = tuple[str, Sequence[PromptPart]]
"""Who says it, and what in which order."""


def message_text(parts: Sequence[PromptPart], *, joint: str, first_image_id: int | None) -> str:
    """Parts as text with a mark for each embedding; pictures are numbered from `first_image_id`."""
    number = first_image_id
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part.replace("\0", ""))
        elif isinstance(part, AudioClip):
            texts.append(f"<|audio_start|>{AUDIO_MARK}<|audio_end|>")
        else:
            texts.append(_picture_text(part, number))
            number = None if number is None else number + 1
    return joint.join(texts)


def chat_text(
    tokenizer: Tokenizer,
    turns: Sequence[PromptTurn],
    *,
    joint: str = "\n",
    generation_prompt: bool = True,
    thinking: bool = False,
    speak: bool = False,
) -> str:
    """A whole conversation through the checkpoint's template."""
    rendered, pictures = [], 0
    for role, parts in turns:
        content = message_text(parts, joint=joint, first_image_id=pictures)
        rendered.append({"role": role, "content": content})
        pictures += sum(isinstance(part, SlicedImage) for part in parts)
    return tokenizer.chat(
        rendered, add_generation_prompt=generation_prompt, thinking=thinking, speak=speak
    )


def answer_opening(*, thinking: bool = False, speak: bool = True) -> str:
    """What closes a streamed user turn and opens the answer."""
    thought = "" if thinking else NO_THOUGHT
    return ANSWER_OPENING + thought + (SPEECH_OPENING if speak else "")


def embed_prompt(
    tokenizer: Tokenizer,
    text: str,
    parts: Sequence[PromptPart],
    *,
    full_attention: bool = False,
) -> Steps[list[Tensor | tuple[int, ...]]]:
    """`text` as pieces to feed, its marks replaced by the embeddings of `parts` in order.

    All clips are encoded in one batch, as the reference does: the tail of a shorter clip depends
    on the longest one.
    """
    sounds = yield from _hear(parts, full_attention=full_attention)
    sights = iter(
        (yield from encode_images([part for part in parts if isinstance(part, SlicedImage)]))
    )
    pieces: list[Tensor | tuple[int, ...]] = []
    for segment in re.split(f"({AUDIO_MARK}|{IMAGE_MARK})", text):
        if segment == AUDIO_MARK:
            pieces.append(next(sounds))
        elif segment == IMAGE_MARK:
            pieces.append(next(sights))
        else:
            ids = tokenizer.encode(segment)
            pieces.append(tuple(token for token in ids if token != tokenizer.ids.listen))
    return pieces


def _picture_text(picture: SlicedImage, number: int | None) -> str:
    label = "" if number is None else f"<image_id>{number}</image_id>"
    cells = [f"<slice>{IMAGE_MARK}</slice>"] * (len(picture.pixels) - 1)
    per_row = picture.columns or 1
    rows = ["".join(cells[at : at + per_row]) for at in range(0, len(cells), per_row)]
    return f"{label}<image>{IMAGE_MARK}</image>" + "\n".join(rows)


def _hear(parts: Sequence[PromptPart], *, full_attention: bool) -> Steps[Iterator[Tensor]]:
    clips = [part for part in parts if isinstance(part, AudioClip)]
    if not clips:
        return iter(())
    sounds = {id(clip.mels): clip.mels for clip in clips}
    pieces = [piece for mels in sounds.values() for piece in mels]
    heard: list[Tensor] = yield EncodeClips(pieces, full_attention)
    rest = iter(heard)
    whole = {key: torch.cat([next(rest) for _ in mels]) for key, mels in sounds.items()}
    return iter([_part_of(whole[id(clip.mels)], clip) for clip in clips])


def _part_of(sound: Tensor, clip: AudioClip) -> Tensor:
    end = None if clip.count is None else clip.start + clip.count
    return sound[clip.start : end]
