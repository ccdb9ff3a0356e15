"""A client that asks the stack a spoken question."""

import asyncio
from itertools import chain, repeat

from antiphon.client.duplex import connect_duplex
from compose import Compose
from support.synthetic_speech import silence, spoken, units_of

_LISTENS_S = 120
"""For the answer: a busy machine may need long for it."""


async def ask(stack: Compose, question: str) -> tuple[str, int]:
    """The answer that a client receives: its text, and the number of audio samples."""
    spoken_text, samples = "", 0
    async with connect_duplex(stack.url, tls=stack.trust) as session:
        await session.prepare("You are a helpful assistant.")
        results = session.results()
        for chunk in chain(units_of(spoken(question)), repeat(silence(1.0), _LISTENS_S)):
            await session.send_audio(chunk)
            unit = await anext(results)
            spoken_text, samples = spoken_text + unit.text, samples + len(unit.audio)
            if unit.end_of_turn:
                break
            await asyncio.sleep(0.9)
    return spoken_text, samples
