"""Talk with microphone and speakers: python examples/microphone.py [URL]. Ctrl-C hangs up.

Needs `pip install sounddevice`, and on Debian `apt-get install libportaudio2`. Use headphones: the
model hears its own voice otherwise.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import import_module

import numpy as np

from antiphon import connect_duplex

try:
    sounddevice = import_module("sounddevice")
except (ImportError, OSError) as error:  # OSError: PortAudio is missing
    sys.exit(
        f"{error}: run `pip install sounddevice`, and on Debian `apt-get install libportaudio2`"
    )

SECOND = 16_000
BLOCK = SECOND // 10


async def microphone() -> AsyncIterator[np.ndarray]:
    """Tenths of a second of the microphone: float32, mono, 16 kHz."""
    loop = asyncio.get_running_loop()
    captured: asyncio.Queue[np.ndarray] = asyncio.Queue()

    def capture(block: np.ndarray, *_: object) -> None:  # runs on the thread of the sound card
        loop.call_soon_threadsafe(captured.put_nowait, block[:, 0].copy())

    options = {"samplerate": SECOND, "channels": 1, "dtype": "float32", "blocksize": BLOCK}
    with sounddevice.InputStream(callback=capture, **options):
        while True:
            yield await captured.get()


async def main(url: str = "ws://127.0.0.1:8006") -> None:
    async with connect_duplex(url) as session:
        await session.wait_for_turn()
        await session.prepare("You are a helpful assistant.")
        with sounddevice.OutputStream(samplerate=24_000, channels=1, dtype="float32") as speakers:
            async for unit in session.converse(microphone()):
                if not unit.is_listen:
                    print(unit.text, flush=True)
                    await asyncio.to_thread(speakers.write, unit.audio)


with suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
