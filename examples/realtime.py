"""The realtime protocol: python examples/realtime.py QUESTION.wav [URL]"""

import asyncio
import sys
import time
from itertools import chain

from antiphon import connect_realtime
from antiphon.client.pacing import paced, padded_chunks, silence
from antiphon.client.results import Spoken
from antiphon.client.sound import load_wav


async def main(question: str, url: str = "ws://127.0.0.1:8006") -> None:
    async with connect_realtime(url, mode="audio") as session:
        await session.wait_for_turn()
        await session.update("You are a helpful assistant.")

        async def speak() -> None:
            chunks = chain(padded_chunks(load_wav(question)), silence())
            async for second in paced(chunks, time.monotonic()):
                await session.append(second)

        speaking = asyncio.create_task(speak())
        async for event in session.events():
            if isinstance(event, Spoken):
                print("speaking:", event.text)
                if event.end_of_turn:
                    break  # event.audio is the speech: float32, 24 kHz
            else:
                print("listening")
        speaking.cancel()


asyncio.run(main(*sys.argv[1:]))
