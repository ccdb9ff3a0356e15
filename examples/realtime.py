"""The realtime protocol: python examples/realtime.py QUESTION.wav [URL [VERSION]]

VERSION is 1 or 2. In version 2 a piece of the answer has text or audio, and `Listen` ends it.
"""

import asyncio
import sys
import time
from itertools import chain
from typing import Literal

from antiphon import connect_realtime
from antiphon.client.results import Spoken
from antiphon.client.sound import load_wav, paced, padded_chunks, silence


async def main(question: str, url: str = "ws://127.0.0.1:8006", version: str = "1") -> None:
    number: Literal[1, 2] = 2 if version == "2" else 1
    asked = load_wav(question)
    async with connect_realtime(url, mode="audio", version=number) as session:
        await session.wait_for_turn()
        await session.update("You are a helpful assistant.")

        async def speak() -> None:
            chunks = chain(padded_chunks(asked), silence())
            async for second in paced(chunks, time.monotonic()):
                await session.append(second)

        speaking, spoke = asyncio.create_task(speak()), False
        async for event in session.events():
            if isinstance(event, Spoken):
                spoke = True
                print("speaking:", event.text)
                if event.end_of_turn:
                    break  # event.audio is the speech: float32, 24 kHz
            elif spoke:
                break
            else:
                print("listening")
        speaking.cancel()


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
