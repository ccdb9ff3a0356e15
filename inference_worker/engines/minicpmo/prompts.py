"""Turn-based prompts: text, sound and pictures of a message in the order the model knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference_worker.engines.minicpmo.images import Picture
from inference_worker.engines.minicpmo.steps import HearClips, See, Steps
from inference_worker.engines.minicpmo.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

SOUND, SIGHT = "\0sound\0", "\0sight\0"
"""Where embeddings go; no client's text can hold them, for NUL is taken out of it."""

ANSWER_OPENING = "<|im_end|>\n<|im_start|>assistant\n"
NO_THOUGHT = "<think>\n\n</think>\n\n"
SPEECH_OPENING = "<|tts_bos|>"


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A whole sound: its log-mel in pieces of up to 30 s."""

    mels: list[Tensor]


Part = str | Clip | Picture


Turn = tuple[str, Sequence[Part]]
"""Who says it, and what in which order."""


def message_text(parts: Sequence[Part], *, joint: str, first_image_id: int | None) -> str:
    """Parts as text with a mark for each embedding; pictures are numbered from `first_image_id`."""
    number = first_image_id
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part.replace("\0", ""))
        elif isinstance(part, Clip):
            texts.append(f"<|audio_start|>{SOUND}<|audio_end|>")
        else:
            texts.append(_picture_text(part, number))
            number = None if number is None else number + 1
    return joint.join(texts)


def chat_text(
    tokenizer: Tokenizer,
    turns: Sequence[Turn],
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
        pictures += sum(isinstance(part, Picture) for part in parts)
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
    parts: Sequence[Part],
    *,
    full_attention: bool = False,
) -> Steps[list[Tensor | tuple[int, ...]]]:
    """`text` as pieces to feed, its marks replaced by the embeddings of `parts` in order.

    All clips are encoded in one batch, as the reference does: the tail of a shorter clip depends
    on the longest one.
    """
    sounds = yield from _hear(parts, full_attention=full_attention)
    sights = yield from _see(parts)
    pieces: list[Tensor | tuple[int, ...]] = []
    for segment in re.split(f"({SOUND}|{SIGHT})", text):
        if segment == SOUND:
            pieces += next(sounds)
        elif segment == SIGHT:
            pieces.append(next(sights))
        else:
            ids = tokenizer.encode(segment)
            pieces.append(tuple(token for token in ids if token != tokenizer.ids.listen))
    return pieces


def _picture_text(picture: Picture, number: int | None) -> str:
    label = "" if number is None else f"<image_id>{number}</image_id>"
    cells = [f"<slice>{SIGHT}</slice>"] * (len(picture.pixels) - 1)
    per_row = picture.columns or 1
    rows = ["".join(cells[at : at + per_row]) for at in range(0, len(cells), per_row)]
    return f"{label}<image>{SIGHT}</image>" + "\n".join(rows)


def _hear(parts: Sequence[Part], *, full_attention: bool) -> Steps[Iterator[list[Tensor]]]:
    clips = [part for part in parts if isinstance(part, Clip)]
    if not clips:
        return iter(())
    heard: list[Tensor] = yield HearClips([m for clip in clips for m in clip.mels], full_attention)
    rest = iter(heard)
    return iter([[next(rest) for _ in clip.mels] for clip in clips])


def _see(parts: Sequence[Part]) -> Steps[Iterator[Tensor]]:
    pictures = [part for part in parts if isinstance(part, Picture)]
    if not pictures:
        return iter(())
    seen: Tensor = yield See(
        [pixels for picture in pictures for pixels in picture.pixels],
        [grid for picture in pictures for grid in picture.grids],
    )
    return iter(seen)
