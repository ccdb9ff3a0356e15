"""Audio in equal chunks at the times of a microphone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import numpy as np

from antiphon.client.sound import check_samples
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

CHUNK_S = 1.0
"""Length of a chunk of a full-duplex session."""


def padded_chunks(samples: Samples, chunk_s: float = CHUNK_S) -> Iterator[Samples]:
    """Equal chunks of a recording; silence fills up the last one."""
    size = int(INPUT_RATE * chunk_s)
    for start in range(0, len(samples), size):
        chunk = samples[start : start + size]
        yield np.pad(chunk, (0, size - len(chunk)))


def silence(chunk_s: float = CHUNK_S) -> Iterator[Samples]:
    """Endless chunks of silence."""
    while True:
        yield np.zeros(int(INPUT_RATE * chunk_s), dtype=np.float32)


async def paced(
    chunks: Iterable[Samples], start: float, chunk_s: float | None = None
) -> AsyncIterator[Samples]:
    """Yield each chunk at the time of a microphone that opened at `start` (`time.monotonic()`)."""
    for number, chunk in enumerate(chunks, start=1):
        await asyncio.sleep(start + number * (chunk_s or CHUNK_S) - time.monotonic())
        yield chunk


async def whole_chunks(
    pieces: AsyncIterable[Samples], rate: int = INPUT_RATE
) -> AsyncIterator[Samples]:
    """One-second chunks of pieces of any length; silence fills up the last one.

    Raises InvalidAudio.
    """
    size, kept = int(INPUT_RATE * CHUNK_S), SILENCE
    async for piece in pieces:
        check_samples(piece, rate)
        kept = np.concatenate([kept, piece])
        while len(kept) >= size:
            yield kept[:size]
            kept = kept[size:]
    if len(kept):
        yield np.pad(kept, (0, size - len(kept)))
