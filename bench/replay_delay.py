"""Measures the time from the end of a call to its playable recording, on a complete stack.

    python bench/replay_delay.py --seconds 30 --calls 5
    python bench/replay_delay.py --seconds 12 --video

Starts `antiphon up` and calls it over a resumable WebSocket, as the pages do. A call ends when its client
sends `stop`. The recording is playable when the edge answers `"replay": "ready"`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from statistics import median

import numpy as np

from antiphon.broker.service.listening import free_port
from antiphon.client.duplex import connect_duplex
from antiphon.client.recordings import Recordings
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.recording import ReplayState
from processes import process, wait_for
from recorder_hour import camera_picture

_LOOK_S = 0.05
_PATIENCE_S = 60.0


async def call(url: str, seconds: int, *, video: bool) -> tuple[str, float]:
    """Hold a call; returns the id of its recording, and when its client sent `stop`."""
    dice = np.random.default_rng(1)
    async with connect_duplex(url, video=video, resume=True) as session:
        await session.wait_for_turn()
        await session.prepare()
        for second in range(seconds):
            sound: Samples = dice.uniform(-0.3, 0.3, INPUT_RATE).astype(np.float32)
            await session.send_audio(sound, frames=[camera_picture(second)] if video else ())
            await asyncio.sleep(1)
        ended_at = time.monotonic()
        await session.stop()
        assert session.recording_id is not None
        return session.recording_id, ended_at


def playable_after(recordings: Recordings, name: str, ended_at: float) -> float:
    while recordings.meta(name).replay is not ReplayState.READY:
        if time.monotonic() - ended_at > _PATIENCE_S:
            sys.exit(f"{name} is not playable after {_PATIENCE_S:g} s")
        time.sleep(_LOOK_S)
    return time.monotonic() - ended_at


def main() -> None:
    """Measure the calls, and print the seconds of each as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--video", action="store_true", help="with a picture per second")
    options = parser.parse_args()
    port = free_port()
    url = f"ws://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        up = (sys.executable, "-m", "antiphon", "up", "--engine", "simulated")
        where = ("--port", str(port), "--health-port", "0", "--data-dir", folder)
        with process(*up, *where):
            wait_for(f"http://127.0.0.1:{port}/health")
            found, recordings = [], Recordings(url)
            for _ in range(options.calls):
                name, ended_at = asyncio.run(call(url, options.seconds, video=options.video))
                found.append(round(playable_after(recordings, name, ended_at), 2))
    print(json.dumps({**vars(options), "playable_after_s": found, "median_s": median(found)}))


if __name__ == "__main__":
    main()
