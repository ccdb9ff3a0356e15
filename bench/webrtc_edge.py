"""CPU time of one edge process for calls by WebRTC: N clients that send speech, and listen or are answered.

    PYTHONPATH=tests python bench/webrtc_edge.py --sessions 8 --seconds 15

Needs the extra `webrtc`. Redis, a worker with the engine `simulated` and the clients run beside the edge.
While the clients are answered, the edge sends speech without a pause; otherwise it sends silence.
"""

import argparse
import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

from antiphon.broker.service.listening import free_port
from antiphon.cli.common import BUNDLED_QUESTION
from antiphon.client.sound import load_wav
from processes import private_redis, process, spent, wait_for
from support.call_client import calling

_PUSH_TO_TALK = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
_SPEAKS = {"slots": 100, "answer_pieces": 40, "speak_ms": 0, "prefill_ms": 0}


async def measure(url: str, edge: psutil.Process, sessions: int, seconds: float) -> None:
    """Print the CPU time of the edge for a second of one call."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(calling(url)) for _ in range(sessions)]
        speech = np.tile(load_wav(BUNDLED_QUESTION), 40)
        for client in clients:
            client.send("session.update", session=_PUSH_TO_TALK)
            client.microphone.say(speech)
        await asyncio.sleep(3.0)
        await _report("sends silence", edge, sessions, seconds)
        for client in clients:
            client.send("response.create")
        for client in clients:
            await client.until("output_audio_buffer.started")
        await _report("sends speech", edge, sessions, seconds)
        print(f"lost: {sum(map(_lost, clients))} of {sessions} calls")


def _lost(client: Any) -> bool:
    return bool(client.closed.is_set())


async def _report(what: str, edge: psutil.Process, sessions: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    began, before = loop.time(), spent(edge)
    await asyncio.sleep(seconds)
    ms = (spent(edge) - before) / (loop.time() - began) / sessions * 1000
    print(
        f"the edge {what}: {ms:.1f} ms of CPU for a second of one call, {1000 / ms:.0f} calls per core"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    port = free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        redis_url, _ = stack.enter_context(private_redis())
        os.environ |= {
            "ANTIPHON_REDIS_URL": redis_url,
            "ANTIPHON_DATA_DIR": str(folder),
            "ANTIPHON_HEALTH_PORT": "0",
            "ANTIPHON_EDGE_HEALTH_PORT": "0",
            "ANTIPHON_PORT": str(port),
            "ANTIPHON_SLOTS": "100",
            "ANTIPHON_ENGINE": "simulated",
            "ANTIPHON_ENGINE_OPTIONS": json.dumps(_SPEAKS),
        }
        python = (sys.executable,)
        edge = stack.enter_context(process(*python, "-m", "antiphon.edge"))
        stack.enter_context(process(*python, "-m", "antiphon.inference_worker"))
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/health")
        asyncio.run(measure(url, psutil.Process(edge), arguments.sessions, arguments.seconds))


if __name__ == "__main__":
    main()
