"""A full-duplex conversation: python examples/conversation.py QUESTION.wav [URL]"""

import asyncio
import sys

from antiphon import connect_duplex
from antiphon.client.sound import load_wav


async def main(question: str, url: str = "ws://127.0.0.1:8006") -> None:
    async with connect_duplex(url) as session:
        await session.wait_for_turn(lambda place: print("number", place.position, "in the queue"))
        await session.prepare("You are a helpful assistant.")
        async for unit in session.converse(load_wav(question)):  # silence follows the question
            seconds = unit.message.current_time / 1000
            print(f"{seconds:.1f} s", "listening" if unit.is_listen else f"speaking: {unit.text}")
            if unit.end_of_turn:
                break  # unit.audio is the speech: float32, 24 kHz


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
