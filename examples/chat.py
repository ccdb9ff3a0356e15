"""Stream an answer to a written question: python examples/chat.py "Who are you?" [URL]"""

import asyncio
import sys

from antiphon import ask


async def main(question: str, url: str = "ws://127.0.0.1:8006") -> None:
    async with ask(url, question) as answer:
        async for piece in answer.pieces():
            print(piece.text, end="", flush=True)
    print("\nrecorded as", answer.recording_id)


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
