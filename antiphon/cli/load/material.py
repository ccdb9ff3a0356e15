"""What users say and show: recordings with silence between, a picture, a question in writing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from antiphon.cli.load.plan import CHUNK_S
from antiphon.cli.wav import speech_end_s
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

QUESTION = "What is the capital of Italy?"
_CHUNK = int(INPUT_RATE * CHUNK_S)
_PICTURE = (640, 480)


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """A question, spoken; its last sound lies `speech_s` into it."""

    samples: Samples
    speech_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """`chunks`: a second each, for ever again from the start. `utterances`: whole questions."""

    chunks: tuple[Samples, ...]
    utterances: tuple[Utterance, ...]
    picture: bytes

    @classmethod
    def of(cls, recordings: Sequence[Samples], speak_ratio: float) -> Material:
        """Recordings are float32 mono at 16 kHz; `speak_ratio` is the share of seconds with speech."""
        return cls(
            chunks=tuple(chunk for one in recordings for chunk in _with_silence(one, speak_ratio)),
            utterances=tuple(Utterance(one, speech_end_s(one)) for one in recordings),
            picture=_picture(),
        )

    def chunk(self, user: int, n: int) -> Samples:
        """The `n`th second of a user; each user begins at another place."""
        return self.chunks[(user + n) % len(self.chunks)]


def _with_silence(recording: Samples, speak_ratio: float) -> list[Samples]:
    spoken = max(1, -(-len(recording) // _CHUNK))
    padded = np.pad(recording, (0, spoken * _CHUNK - len(recording)))
    chunks = list(padded.reshape(spoken, _CHUNK)) if speak_ratio > 0 else []
    silent = round(spoken * (1 - speak_ratio) / speak_ratio) if chunks else 1
    return chunks + [np.zeros(_CHUNK, np.float32)] * silent


def _picture() -> bytes:
    """A JPEG of 640 by 480, about as big as one of a camera."""
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (_PICTURE[1] // 8, _PICTURE[0] // 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(_PICTURE, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()
