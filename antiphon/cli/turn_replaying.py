"""Holds a recorded half-duplex or chat session again, with a running stack."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import numpy as np

from antiphon.cli.comparison import Pair, Said
from antiphon.cli.turn_score import ChatScore, HalfDuplexScore, Utterance
from antiphon.client.chat import ask
from antiphon.client.errors import ClientError, ServerError
from antiphon.client.half_duplex import Event, HalfDuplexSession, connect_half_duplex
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.half_duplex_messages import Generating, TurnDone

_CHUNK = INPUT_RATE // 2
_CHUNK_S = _CHUNK / INPUT_RATE
_LEAD_S = 0.7
"""Silence before an utterance: the detector's start, and what padding it takes."""


async def replay_chat(
    score: ChatScore, url: str, *, patience_s: float, api_key: str | None = None
) -> list[Pair]:
    """The one request, with its answer then and now. Raises ClientError."""
    said: Said | None = None
    async with ask(
        url,
        score.history,
        generation=score.generation,
        tts=score.tts,
        options=score.options,
        api_key=api_key,
    ) as answer:
        await answer.wait_for_turn()
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                done = await answer.whole()
                said = Said(True, done.text, _ms_since(began))
    return [Pair(0, 0.0, score.was, said)]


async def replay_half_duplex(
    score: HalfDuplexScore, url: str, *, fast: bool, patience_s: float, api_key: str | None = None
) -> list[Pair]:
    """Each utterance, spoken when the answer to the last one is over. Raises ClientError, NotStored."""
    async with connect_half_duplex(url, api_key=api_key) as session:
        await session.wait_for_turn()
        await session.prepare(score.system, score.config, ref_audio=score.ref_audio)
        partner = _Partner(session, fast=fast)
        hearing = asyncio.create_task(partner.hear(), name="replay-hear")
        try:
            return [
                Pair(
                    turn.index,
                    turn.at_s,
                    turn.was,
                    await partner.answer_to(turn, score, patience_s),
                )
                for turn in score.utterances
            ]
        finally:
            hearing.cancel()
            await asyncio.wait([hearing])


class _Partner:
    """Speaks, and falls silent as soon as it is answered."""

    def __init__(self, session: HalfDuplexSession, *, fast: bool) -> None:
        self._session = session
        self._pace_s = 0.0 if fast else _CHUNK_S
        self._began = 0.0
        self._answering = asyncio.Event()
        self._answers: asyncio.Queue[Said | ClientError] = asyncio.Queue()
        self._too_early = False

    async def hear(self) -> None:
        """Until the session is over; that it is becomes the last answer."""
        over = ClientError("the session ended before the replay did")
        while True:
            try:
                async for event in self._session.events():
                    self._take(event)
            except ServerError as error:
                self._too_early = self._too_early or error.code == ErrorCode.INPUT_BACKPRESSURE
                continue
            except ClientError as error:
                over = error
            self._answers.put_nowait(over)
            return

    def _take(self, event: Event) -> None:
        if isinstance(event, Generating):
            self._began = time.monotonic()
            self._answering.set()
        elif isinstance(event, TurnDone):
            self._answers.put_nowait(Said(True, event.text, _ms_since(self._began)))

    async def answer_to(
        self, turn: Utterance, score: HalfDuplexScore, patience_s: float
    ) -> Said | None:
        """Say it, and hear the answer out; None when there is none. Raises ClientError, NotStored."""
        self._answering.clear()
        silence_s = score.config.vad.min_silence_duration_ms / 1000 + 2 * _CHUNK_S
        sound = await asyncio.to_thread(turn.samples)
        await self._say(_with_silence(sound, silence_s))
        try:
            async with asyncio.timeout(patience_s):
                answer = await self._answers.get()
        except TimeoutError:
            return None
        if isinstance(answer, ClientError):
            raise answer
        return answer

    async def _say(self, sound: Samples) -> None:
        for start in range(0, len(sound), _CHUNK):
            if self._answering.is_set():
                return
            await self._session.send_audio(sound[start : start + _CHUNK])
            await asyncio.sleep(_CHUNK_S if self._too_early else self._pace_s)


def _with_silence(sound: Samples, after_s: float) -> Samples:
    lead, rest = (np.zeros(round(s * INPUT_RATE), np.float32) for s in (_LEAD_S, after_s))
    return np.concatenate([lead, sound, rest])


def _ms_since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
