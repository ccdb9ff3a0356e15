"""PulseAudio without hardware: a microphone that a test speaks into, and a loudspeaker that it hears."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MICROPHONE = "Microphone"

_START_S = 60.0
_FORMAT = (f"--rate={INPUT_RATE}", "--channels=1", "--format=float32le", "--raw")


@dataclass
class SoundServer:
    """Each program with `environment` uses the microphone and the loudspeaker of this server.

    The microphone is the monitor of a sink that nobody hears, so it is silent outside of `speaking`.
    """

    folder: Path
    environment: dict[str, str] = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        socket = self.folder / "socket"
        log = self.folder / "pulseaudio.log"
        own = {name: str(self.folder) for name in ("HOME", "XDG_RUNTIME_DIR", "PULSE_RUNTIME_PATH")}
        modules = (
            "module-null-sink sink_name=loudspeaker",
            "module-null-sink sink_name=mouth",
            "module-remap-source source_name=microphone master=mouth.monitor "
            f"source_properties=device.description={MICROPHONE}",
            f"module-native-protocol-unix socket={socket} auth-anonymous=1",
        )
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]
                + [f"--load={module}" for module in modules],
                env={**os.environ, **own},
                stderr=output,
            )
        deadline = time.monotonic() + _START_S
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"PulseAudio did not start:\n{log.read_text()}")
            time.sleep(0.02)
        self.environment = {
            **os.environ,
            "PULSE_SERVER": f"unix:{socket}",
            "PULSE_SINK": "loudspeaker",
            "PULSE_SOURCE": "microphone",
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()

    @asynccontextmanager
    async def speaking(self, speech: Samples) -> AsyncIterator[None]:
        """Speaks inside the block, over and over. `speech` at 16 kHz."""

        async def repeat() -> None:
            while True:
                await self._speak(speech)

        repeating = asyncio.create_task(repeat())
        try:
            yield
        finally:
            repeating.cancel()
            with suppress(asyncio.CancelledError):
                await repeating

    async def _speak(self, speech: Samples) -> None:
        player = await asyncio.create_subprocess_exec(
            *("pacat", "--playback", "--device=mouth", *_FORMAT),
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            await player.communicate(speech.astype("<f4").tobytes())
        except asyncio.CancelledError:
            player.terminate()
            await player.wait()
            raise
        assert player.returncode == 0

    @asynccontextmanager
    async def recording(self) -> "AsyncIterator[Recording]":
        """Records the loudspeaker inside the block."""
        recorder = await asyncio.create_subprocess_exec(
            *("pacat", "--record", "--device=loudspeaker.monitor", *_FORMAT),
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        assert recorder.stdout is not None
        heard = Recording(bytearray(await recorder.stdout.readexactly(4)))  # it runs now
        reading = asyncio.create_task(heard.read(recorder.stdout))
        try:
            yield heard
        finally:
            recorder.terminate()
            await reading
            await recorder.wait()


@dataclass
class Recording:
    """What the loudspeaker has played until now: float32 at 16 kHz."""

    pcm: bytearray

    async def read(self, output: asyncio.StreamReader) -> None:
        while data := await output.read(65536):
            self.pcm += data

    def has_sound(self) -> bool:
        return audible_s(np.frombuffer(self.pcm[: len(self.pcm) // 4 * 4], dtype="<f4")) > 0.3


def audible_s(sound: Samples, rate: int = INPUT_RATE) -> float:
    """Seconds of the blocks of 20 ms that are louder than -45 dB."""
    size = rate // 50
    blocks = sound[: len(sound) // size * size].reshape(-1, size)
    return float(np.count_nonzero(np.mean(np.square(blocks), axis=1) > 10**-4.5)) * 0.02
