"""Finished units and turns, and how they are stored for the next worker."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import numpy as np
import soundfile

from antiphon.inference_worker.engines.types import PastTurn, PastUnit
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.entries import PastSteps, StreamPosition

StepT = TypeVar("StepT", PastUnit, PastTurn)

_MEDIA = ("audio", "frames")


@dataclass(frozen=True, slots=True, eq=False)
class FinishedStep(Generic[StepT]):
    """A unit or a turn with the last entries that belong to it; `step` is None for a failed turn.

    `count`: the duration of the input so far (ms), or the index of the next turn. `at_s`: when this
    worker published it or read it again (`time.monotonic`).
    """

    step: StepT | None
    last_input: StreamPosition
    last_output: StreamPosition
    count: int
    at_s: float = field(default_factory=time.monotonic)


def encode_steps(finished: Sequence[FinishedStep[StepT]], *, with_audio: bool) -> PastSteps:
    """One entry for steps in a row. Their sound is stored with 16 bits per sample."""
    steps = [item.step for item in finished if item.step is not None]
    last = finished[-1]
    sounds = [step.audio for step in steps if step.audio is not None] if with_audio else []
    return PastSteps(
        last_input=last.last_input.id(),
        last_output=last.last_output.id(),
        count=last.count,
        steps=[_header(step, with_audio=with_audio) for step in steps],
        audio=_flac(np.concatenate(sounds)) if sounds else b"",
        frames=tuple(frame for step in steps for frame in _frames(step)) if with_audio else (),
    )


def decode_steps(entries: Iterable[PastSteps], kind: type[StepT]) -> Iterator[StepT]:
    """Every step of `entries`."""
    for entry in entries:
        rest, frames = _sound(entry.audio), list(entry.frames)
        for header in entry.steps:
            values = dict(header)
            count, n_frames = values.pop("samples"), values.pop("frames")
            values["audio"] = None if count is None else rest[:count]
            if n_frames:
                values["frames"] = tuple(frames[:n_frames])
            rest, frames = rest[count or 0 :], frames[n_frames:]
            yield kind(**values)


def _header(step: PastUnit | PastTurn, *, with_audio: bool) -> dict[str, Any]:
    header = {x.name: getattr(step, x.name) for x in fields(step) if x.name not in _MEDIA}
    kept = with_audio and step.audio is not None
    header["samples"] = len(step.audio) if kept and step.audio is not None else None
    header["frames"] = len(_frames(step)) if with_audio else 0
    return header


def _frames(step: PastUnit | PastTurn) -> tuple[bytes, ...]:
    return step.frames if isinstance(step, PastUnit) else ()


def _flac(samples: Samples) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, to_pcm16(samples), INPUT_RATE, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def _sound(flac: bytes) -> Samples:
    if not flac:
        return np.zeros(0, dtype=np.float32)
    pcm, _ = soundfile.read(io.BytesIO(flac), dtype="int16")
    return samples_from_bytes(pcm.tobytes(), PcmFormat.S16)
