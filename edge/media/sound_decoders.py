"""Decodes sound files of clients outside the edge's process, where a fault of a decoder does no harm."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import structlog

from antiphon.edge.media.sound_process import CPU_S, Job, Verdict
from antiphon.shared_schemas.errors import InvalidInput

log = structlog.get_logger()

AT_ONCE = 2
"""Files of one edge. Others wait."""
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
"""The process of the decoders knows no keys and no addresses."""
_MODULE = "antiphon.edge.media.sound_process"


class SoundDecoders:
    """Has a process that decodes each file in a child process; it starts with the first file."""

    def __init__(self, cpu_s: int = CPU_S) -> None:
        self._cpu_s = cpu_s
        self._free = asyncio.Semaphore(AT_ONCE)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._running: set[asyncio.Task[bytes]] = set()

    async def read(self, data: bytes, field: str, longest_s: float) -> bytes:
        """A file as 16-bit PCM at 16 kHz. Raises InvalidInput.

        A file whose client has left keeps its place until its decoder ends: one client cannot start many.
        """
        decoding = asyncio.create_task(self._read(data, field, longest_s), name="sound-file")
        self._running.add(decoding)
        decoding.add_done_callback(self._finished)
        return await asyncio.shield(decoding)

    async def close(self) -> None:
        """End the process, which ends its children."""
        running = list(self._running)
        for decoding in running:
            decoding.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._stop()
        if self._process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            await asyncio.to_thread(self._process.wait)

    def _finished(self, decoding: asyncio.Task[bytes]) -> None:
        self._running.discard(decoding)
        if not decoding.cancelled():
            decoding.exception()  # the caller may have left

    async def _read(self, data: bytes, field: str, longest_s: float) -> bytes:
        async with self._free:
            answer = await self._exchange(data, field, longest_s)
            if not answer and self._process is not None and self._process.poll() is not None:
                log.warning("sound_process_restarted", status=self._process.returncode)
                answer = await self._exchange(data, field, longest_s)
        if answer[:1] == Verdict.SOUND.value:
            return answer[1:]
        if answer[:1] == Verdict.REFUSED.value:
            raise InvalidInput(answer[1:].decode(), field=field)
        log.warning("sound_decoder_died", bytes=len(data), field=field)
        text = "it is damaged, or decoding it takes too much memory or time; convert it to WAV"
        raise InvalidInput(f"{field}: the file cannot be decoded: {text}", field=field)

    async def _exchange(self, data: bytes, field: str, longest_s: float) -> bytes:
        """What a child answers; nothing if it was killed."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._started(), [b"f"], [theirs.fileno()])
            except (BrokenPipeError, ConnectionResetError):  # the process has ended: start another
                self._stop()
                socket.send_fds(self._started(), [b"f"], [theirs.fileno()])
        name = field.encode()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            writer.write(Job(len(data), longest_s, len(name)).encode() + name)
            writer.write(data)
            return await reader.read(-1)
        except ConnectionError:  # killed while the edge was sending
            return b""
        finally:
            writer.close()
            with suppress(ConnectionError):  # known already, or without meaning
                await writer.wait_closed()

    def _started(self) -> socket.socket:
        """The socket of the process, which is started unless it runs."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._stop()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(self._cpu_s)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={
                    "OPENBLAS_NUM_THREADS": "1",
                    **{name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                },
                start_new_session=True,
            )
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
