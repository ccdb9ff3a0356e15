"""Input of the simulated users: recordings with silence between them, an image, a question."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from antiphon.cli.conversation.conversation import SpokenQuestion
from antiphon.cli.load.plan import CHUNK_S
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

QUESTION = "What is the capital of Italy?"
_CHUNK = int(INPUT_RATE * CHUNK_S)
_SIZE = (640, 480)


@dataclass(frozen=True, slots=True, eq=False)
class LoadInputs:
    """`chunks` of one second, used in a cycle; `questions` are whole recordings."""

    chunks: tuple[Samples, ...]
    questions: tuple[SpokenQuestion, ...]
    image: bytes

    @classmethod
    def of(cls, recordings: Sequence[Samples], speak_ratio: float) -> LoadInputs:
        """Recordings are float32 mono at 16 kHz; `speak_ratio` is the share of seconds with speech."""
        return cls(
            chunks=tuple(chunk for one in recordings for chunk in _with_silence(one, speak_ratio)),
            questions=tuple(SpokenQuestion(one) for one in recordings),
            image=_jpeg(),
        )

    def chunk(self, user: int, n: int) -> Samples:
        """The `n`th second of a user; each user starts at a different place."""
        return self.chunks[(user + n) % len(self.chunks)]


def _with_silence(recording: Samples, speak_ratio: float) -> list[Samples]:
    spoken = max(1, -(-len(recording) // _CHUNK))
    padded = np.pad(recording, (0, spoken * _CHUNK - len(recording)))
    chunks = list(padded.reshape(spoken, _CHUNK)) if speak_ratio > 0 else []
    silent = round(spoken * (1 - speak_ratio) / speak_ratio) if chunks else 1
    return chunks + [np.zeros(_CHUNK, np.float32)] * silent


def _jpeg() -> bytes:
    """A JPEG of 640 by 480 pixels with about the size of a camera's."""
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (_SIZE[1] // 8, _SIZE[0] // 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(_SIZE, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()
