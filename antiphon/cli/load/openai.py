"""Speaks to OpenAI's Live and Realtime APIs, for simulated users."""

import asyncio
import time

import numpy as np

from antiphon.cli.conversation.conversation import SpokenQuestion, in_background
from antiphon.cli.load.plan import LoadRequest
from antiphon.client.errors import UnreadableMessage
from antiphon.client.openai_link import OpenAiLink
from antiphon.client.sound import paced, padded_chunks
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_PIECE_S = 0.1
"""Of a message: 16-bit sound at 24 kHz."""


async def keep_line(link: OpenAiLink, chunk_ms: int, ends: asyncio.Event) -> int:
    """Silence until `ends` is set: the time of the session runs on. Returns the number of chunks."""
    chunks = 0
    while not ends.is_set():
        await speak_live(
            link, np.zeros(chunk_ms * INPUT_RATE // 1000, np.float32), time.monotonic()
        )
        chunks += 1
    return chunks


async def read_live(link: OpenAiLink, answers: dict[int, float], chunk_ms: int) -> None:
    """Note when each chunk was answered. The API tells nothing of those to which the model listens."""
    async for event in link.events():
        if event["type"] == "session.output_transcript.delta":
            if not isinstance(start_ms := event.get("start_ms"), int):
                raise UnreadableMessage("the server sent a transcript without a time")
            answers.setdefault(start_ms // chunk_ms - 1, time.monotonic())


async def speak_live(link: OpenAiLink, chunk: Samples, began: float) -> None:
    """A chunk in pieces, in real time from `began` on: the server fills gaps with silence."""
    async for piece in paced(padded_chunks(chunk, _PIECE_S), began, _PIECE_S):
        await link.speak(piece)


async def ask_openai(link: OpenAiLink, question: SpokenQuestion, request: LoadRequest) -> None:
    """A spoken question, until its answer is complete."""
    async with in_background(question.speak_to(link.speak, _PIECE_S)) as speaking:
        async for event in link.events():
            match event["type"]:
                case "response.created":
                    speaking.cancel()
                case "response.output_audio.delta" if request.answered_at is None:
                    request.answered_at = time.monotonic()
                case "response.done":
                    return
