"""Writes `merged_replay.opus`: the merged replay as Ogg Opus, for players on slow connections."""

from __future__ import annotations

from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.codec.context import Flags

from antiphon.recorder_service.journal.files import atomic_file
from antiphon.recorder_service.replay.mix import StopCheck, read_seconds
from antiphon.shared_schemas.audio import OUTPUT_RATE

BIT_RATE = 32_000
"""A minute takes at most 250 kB."""

_OPTIONS = {"compression_level": "2"}
"""Of 10. Level 5 takes a third more CPU time for the same spectrum, level 10 five times as much."""


def write_opus(folder: Path, name: str, sound: str, check: StopCheck) -> None:
    """Write the file below a session directory, whole or not at all.

    `sound` names the finished replay WAV. The same WAV gives the same bytes: `bitexact` replaces the
    random serial number of an Ogg stream. Raises OSError, also for failures of FFmpeg.
    """
    with (
        atomic_file(folder / name) as temporary,
        av.open(str(temporary), "w", format="ogg", options={"fflags": "+bitexact"}) as container,
    ):
        stream: AudioStream = container.add_stream("libopus", rate=OUTPUT_RATE, layout="stereo")
        stream.bit_rate = BIT_RATE
        stream.codec_context.flags |= Flags.bitexact
        stream.codec_context.options = _OPTIONS
        for frame in read_seconds(folder / sound):
            check()
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
