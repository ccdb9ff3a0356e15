"""The process in which an edge has sound files decoded: `python -m antiphon.edge.media.sound_process`.

It has loaded FFmpeg, and forks a child for each file. The child decodes one file under limits of memory, CPU
time and duration, opens no file and no connection, and exits. So a file that exploits, crashes or exhausts a
decoder takes nothing but its own child.

Standard input is a socket. Each message on it is one byte with the descriptor of a connection. On that comes
a `Job` and the file, and goes one byte of `Verdict`, then PCM or a text. A child that was killed sends nothing.
"""

import os
import pkgutil
import resource
import signal
import socket
import struct
import sys
import traceback
from enum import Enum
from importlib import import_module
from typing import NamedTuple, NoReturn, Self

import av
import numpy as np
import soxr

from antiphon.edge.media.sample_hints import check_peak
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, pcm16_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.file_kinds import FileKind, file_kind, find_mpeg_audio
from antiphon.shared_schemas.sound_decoder import UnreadableSound, decode_sound, duration_text
from antiphon.shared_schemas.wav import CompressedWav, UnreadableWav, is_wav, open_wav

MEMORY_BYTES = 512 * 1024 * 1024
"""Of a child, in addition to the file. Ten minutes of sound take 140 MB."""
CPU_S = 10
"""Of a child. Ten minutes of MP3 take 1.6 s."""
WALL_S = 60.0
"""Of a child on a machine that is busy."""
_NICE = 10
_JOB = struct.Struct("<QdH")


class Verdict(Enum):
    """Of a file."""

    SOUND = b"+"
    REFUSED = b"-"


class Job(NamedTuple):
    """The size of a file, the longest sound, and the bytes of the field's name, which precedes the file."""

    size: int
    longest_s: float
    field_bytes: int

    @classmethod
    def receive(cls, connection: socket.socket) -> Self:
        return cls(*_JOB.unpack(_receive(connection, _JOB.size)))

    def encode(self) -> bytes:
        return _JOB.pack(*self)


def main() -> None:
    """Runs until the edge closes the socket. The argument is the CPU time of a child, in seconds."""
    cpu_s = int(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children leave nothing to wait for
    os.nice(_NICE)
    for module in pkgutil.walk_packages(av.__path__, "av."):  # a child can open no files
        if not module.name.endswith("__main__"):
            import_module(module.name)
    control = socket.socket(fileno=0)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        [descriptor] = descriptors
        if os.fork() == 0:
            control.close()
            _serve(descriptor, cpu_s)
        os.close(descriptor)


def _serve(descriptor: int, cpu_s: int) -> NoReturn:
    """Decodes one file, and exits."""
    try:
        with socket.socket(fileno=descriptor) as connection:
            job = Job.receive(connection)
            field = _receive(connection, job.field_bytes).decode()
            data = _receive(connection, job.size)
            _limit(job.size, cpu_s)
            try:
                verdict, answer = Verdict.SOUND, read_sound_file(data, field, job.longest_s)
            except InvalidInput as refused:
                verdict, answer = Verdict.REFUSED, refused.message.encode()
            connection.sendall(verdict.value + answer)
    except MemoryError:
        os._exit(1)  # the edge takes the silence for a refusal
    except BaseException:  # noqa: BLE001 - a forked child must not return into the loop
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _limit(size: int, cpu_s: int) -> None:
    """From now on. The system kills a child that takes more time, and refuses it memory and files."""
    memory = 2 * size + MEMORY_BYTES
    for kind, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    signal.setitimer(signal.ITIMER_REAL, WALL_S)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("the edge has closed the connection")
        view = view[count:]
    return bytes(data)


def read_sound_file(data: bytes, field: str, longest_s: float) -> bytes:
    """A file as 16-bit PCM at 16 kHz. Raises InvalidInput."""
    try:
        samples = _decode(data, longest_s)
    except (UnreadableSound, UnreadableWav) as error:
        raise InvalidInput(f"{field}: {error}", field=field) from None
    if not len(samples):
        raise InvalidInput(f"{field}: the file has no sound", field=field)
    check_peak(samples, field)
    return pcm16_bytes(samples)


def _decode(data: bytes, longest_s: float) -> Samples:
    """Raises UnreadableSound or UnreadableWav."""
    if not data:
        raise UnreadableSound("the file is empty")
    if not is_wav(data):
        return decode_sound(data, file_kind(data) or find_mpeg_audio(data), longest_s)
    try:
        sound = open_wav(data)
    except CompressedWav:
        return decode_sound(data, FileKind.WAV, longest_s)
    if sound.frames > longest_s * sound.rate:
        raise UnreadableSound(f"it is longer than {duration_text(longest_s)}")
    resampled: Samples = soxr.resample(sound.mono(), sound.rate, INPUT_RATE)
    return resampled.astype(np.float32, copy=False)


if __name__ == "__main__":
    main()
