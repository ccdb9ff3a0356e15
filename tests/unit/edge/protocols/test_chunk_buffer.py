"""Chunks for engines: any pieces of a client give the same sound, and gaps become silence."""

import numpy as np
import pytest

from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.protocols.sound_stream import ChunkBuffer
from antiphon.shared_schemas.entries import ChunkIn
from support.clock import Clock

CHUNK_BYTES = 2 * 3200
"""200 ms at 16 kHz."""


def begun(clock: Clock, audio_format: AudioFormat = AudioFormat.PCM_16K) -> ChunkBuffer:
    buffer = ChunkBuffer(clock)
    buffer.begin(audio_format, 200)
    return buffer


def run(buffer: ChunkBuffer, clock: Clock, seconds: float) -> list[ChunkIn]:
    """Calls `fill` when the buffer asks for it."""
    end, chunks = clock.now + seconds, []
    while buffer.next_check <= end:
        clock.now = buffer.next_check
        chunks += buffer.fill()
    clock.now = end
    return chunks


@pytest.mark.parametrize("size", [2, 640, 6400, 20_000])
def test_chunks_have_the_length_of_the_engine(size: int) -> None:
    sound = np.arange(8 * 3200, dtype="<i2").tobytes()
    buffer = begun(Clock())
    pieces = [sound[at : at + size] for at in range(0, len(sound), size)]
    chunks = [chunk.audio for piece in pieces for chunk in buffer.add(piece)]
    assert {len(chunk) for chunk in chunks} == {CHUNK_BYTES}
    assert b"".join(chunks) == sound


def test_a_muted_client_is_silent_whatever_it_sends() -> None:
    buffer = begun(Clock())
    buffer.muted = True
    (chunk,) = buffer.add(b"\x10" * CHUNK_BYTES)
    assert chunk.audio == bytes(CHUNK_BYTES)


@pytest.mark.parametrize(("muted", "gap_s"), [(False, 1.0), (True, 0.4)])
def test_missing_sound_becomes_silence_in_real_time(muted: bool, gap_s: float) -> None:
    clock = Clock()
    buffer = begun(clock)
    assert buffer.add(b"\x10" * 6000) == []
    buffer.muted = muted
    assert run(buffer, clock, gap_s - 0.05) == []
    first, *others = run(buffer, clock, 4.05)
    assert first.audio == b"\x10" * 6000 + bytes(CHUNK_BYTES - 6000)
    assert {chunk.audio for chunk in others} == {bytes(CHUNK_BYTES)}
    assert 1 + len(others) == pytest.approx(20, abs=1)
    assert [len(chunk.audio) for chunk in buffer.add(b"\x10" * CHUNK_BYTES)] == [CHUNK_BYTES]


def test_silence_ends_30_s_after_the_last_message() -> None:
    clock = Clock()
    buffer = begun(clock)
    assert len(run(buffer, clock, 60.0)) == pytest.approx(5 * 29, abs=2)
    buffer.touch()
    assert len(run(buffer, clock, 60.0)) == pytest.approx(5 * 30, abs=2)
