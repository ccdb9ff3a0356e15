"""Replies as sound files, and microphone and speakers through the optional `sounddevice`."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any, Self

import numpy as np

from antiphon.client.sound import save_wav
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.wav import UnreadableWav, open_wav

_MOST_UNSENT_S = 3.0
"""Sound of the microphone that is kept while the connection is broken, as the pages do."""


_LEAD: Samples = np.zeros(OUTPUT_RATE // 10, dtype=np.float32)
"""Silence before speech where nothing plays, so that a result may come that much later than the one before."""


class UnusableAudio(Exception):
    """A sound file cannot be written or played; the message names it and the cause."""


def is_there(path: Path) -> bool:
    """False also for words that are too long for the name of a file."""
    try:
        return path.exists()
    except OSError:
        return False


def check_reply_file(path: Path, formats: Collection[str] = (".wav",)) -> None:
    """Raises UnusableAudio if a file cannot be written there, or its name has another format."""
    if path.suffix and path.suffix.lower() not in formats:
        raise UnusableAudio(f"cannot write {path}: use the extension {' or '.join(formats)}")
    if path.is_dir():
        raise UnusableAudio(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise UnusableAudio(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnusableAudio(f"cannot write {path}: permission denied")


def save_reply(path: Path, samples: Samples) -> None:
    """Write 24 kHz speech as a 16-bit WAV. Raises UnusableAudio."""
    try:
        save_wav(path, samples)
    except OSError as error:
        raise UnusableAudio(f"cannot write {path}: {error.strerror}") from error


class NoMicrophone(Exception):
    """No sound device can be used; the message says what to install or plug in."""


def play_wav(path: Path) -> None:
    """Play a 16-bit WAV file and wait for its end. Raises NoMicrophone, UnusableAudio."""
    sound = _sounddevice()
    try:
        file = open_wav(path.read_bytes())
    except (UnreadableWav, OSError) as error:
        raise UnusableAudio(f"cannot play {path}: {error}") from error
    if file.dtype != "<i2":
        raise UnusableAudio(f"cannot play {path}: its samples do not have 16 bits")
    pcm = np.frombuffer(file.data, "<i2", count=file.frames * file.channels)
    try:
        sound.play(pcm.reshape(-1, file.channels), file.rate, blocking=True)
    except sound.PortAudioError as error:
        raise NoMicrophone(f"the sound card cannot be used: {error}") from error


class Headset:
    """Records chunks of this length at 16 kHz and plays speech at 24 kHz."""

    def __init__(self, chunk_s: float) -> None:
        self._chunk_s = chunk_s
        self._sound = _sounddevice()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._captured: asyncio.Queue[Samples] = asyncio.Queue()
        self._lock = threading.Lock()
        self._to_play = SILENCE
        self._streams: list[Any] = []

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        mono = {"channels": 1, "dtype": "float32"}
        try:
            capture, play = self._sound.InputStream, self._sound.OutputStream
            self._streams = [
                capture(
                    samplerate=INPUT_RATE,
                    blocksize=round(INPUT_RATE * self._chunk_s),
                    callback=self._capture,
                    **mono,
                ),
                play(samplerate=OUTPUT_RATE, callback=self._fill, **mono),
            ]
            for stream in self._streams:
                stream.start()
        except self._sound.PortAudioError as error:
            raise NoMicrophone(f"the sound card cannot be used: {error}") from error
        return self

    def __exit__(self, *exc: object) -> None:
        for stream in self._streams:
            stream.close()

    async def chunks(self) -> AsyncIterator[Samples]:
        """Chunks of the microphone, each as soon as it is complete.

        After a pause of the reader, it gets the newest ones: old speech would delay all that follows.
        """
        while True:
            while self._captured.qsize() * self._chunk_s > _MOST_UNSENT_S:
                self._captured.get_nowait()
            yield await self._captured.get()

    def play(self, samples: Samples) -> None:
        """Add samples to the end of the playback buffer."""
        with self._lock:
            lead = SILENCE if len(self._to_play) or not len(samples) else _LEAD
            self._to_play = np.concatenate([self._to_play, lead, samples])

    @property
    def is_playing(self) -> bool:
        with self._lock:
            return len(self._to_play) > 0

    def drop_unplayed(self) -> float:
        """Drop audio that was not played yet, after an interruption; returns its length in ms."""
        with self._lock:
            dropped, self._to_play = self._to_play, SILENCE
        return len(dropped) * 1000 / OUTPUT_RATE

    def _capture(self, block: Samples, _frames: int, _time: Any, _status: Any) -> None:
        """Runs on the sound device's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._captured.put_nowait, block[:, 0].copy())

    def _fill(self, block: Samples, frames: int, _time: Any, _status: Any) -> None:
        """Runs on the sound device's thread."""
        with self._lock:
            now, self._to_play = self._to_play[:frames], self._to_play[frames:]
        block.fill(0.0)
        block[: len(now), 0] = now


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError:
        raise NoMicrophone(
            "microphone and speakers need sounddevice; run: pip install sounddevice"
        ) from None
    except OSError as error:
        remedy = "on Debian run: apt-get install -y libportaudio2"
        raise NoMicrophone(f"sounddevice finds no PortAudio ({error}); {remedy}") from None
    return sounddevice
