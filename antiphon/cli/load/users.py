"""One user each: connect, wait for the others, do what is due when it is due, note the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from antiphon.cli.conversation import hush
from antiphon.cli.load.ledger import Ledger, Moment
from antiphon.cli.load.material import QUESTION, Material
from antiphon.cli.load.plan import Kind
from antiphon.client.chat import ask
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ServerError
from antiphon.client.half_duplex import HalfDuplexSession, Piece, connect_half_duplex
from antiphon.client.link import Connecting
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.content import Message, Role, TextPart
from antiphon.shared_schemas.half_duplex_messages import Generating, TurnDone

_PIECE = INPUT_RATE // 2
_SILENCE = np.zeros(_PIECE, np.float32)
_TURN_PATIENCE_S = 30.0
PROMPT = "You are a helpful assistant."


@dataclass(frozen=True)
class User:
    """What a user needs. `ready` is awaited once served, and returns when all are.

    A user whose answers do not come waits for them until cancelled.
    """

    number: int
    kind: Kind
    url: str
    how: Connecting
    material: Material
    ledger: Ledger
    ready: Callable[[], Awaitable[None]]

    @property
    def moments(self) -> list[Moment]:
        """What this one is due to do, once the ledger is written."""
        return self.ledger.users[self.number]

    async def live(self) -> None:
        """Raises ClientError when the server ends it early, or lets nobody in."""
        match self.kind:
            case Kind.CHAT:
                await _chat(self)
            case Kind.HALF_DUPLEX:
                await _take_turns(self)
            case _:
                await _converse(self)

    def complain(self, error: ServerError) -> None:
        """Note what did not end the session."""
        self.ledger.failures[f"{self.kind}: {error}"] += 1


async def _converse(user: User) -> None:
    async with connect_duplex(user.url, video=user.kind is Kind.OMNI, **user.how) as session:
        await session.wait_for_turn()
        await session.prepare(PROMPT)
        await user.ready()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read_units(user, session))
            tasks.create_task(_speak(user, session))


async def _speak(user: User, session: DuplexSession) -> None:
    frames = (user.material.picture,) if user.kind is Kind.OMNI else ()
    for n, moment in enumerate(user.moments):
        await asyncio.sleep(moment.due_at - time.monotonic())
        moment.sent_at = time.monotonic()
        await session.send_audio(user.material.chunk(user.number, n), frames=frames)


async def _read_units(user: User, session: DuplexSession) -> None:
    """Until the last result that is due; they come in order."""
    while True:
        try:
            async for unit in session.results():
                _note_unit(user, unit)
                if user.moments[-1].answered_at is not None:
                    return
        except ServerError as error:
            user.complain(error)
        else:
            return


def _note_unit(user: User, unit: Unit) -> None:
    """A result tells how much audio it has heard; so chunks that were skipped get no answer."""
    n = unit.message.current_time // 1000 - 1
    if 0 <= n < len(user.moments):
        user.moments[n].answered_at = unit.received_at
    user.ledger.simulated |= bool(unit.message.simulated)


async def _take_turns(user: User) -> None:
    async with connect_half_duplex(user.url, **user.how) as session:
        await session.wait_for_turn()
        await session.prepare(PROMPT)
        await user.ready()
        for n, moment in enumerate(user.moments):
            await _take_turn(user, session, moment, n)


async def _take_turn(user: User, session: HalfDuplexSession, moment: Moment, n: int) -> None:
    """Ask when it is due and hear the answer out; give up where none comes."""
    utterance = user.material.utterances[(user.number + n) % len(user.material.utterances)]
    await asyncio.sleep(moment.due_at - time.monotonic())
    moment.sent_at = time.monotonic()
    moment.answer_from = moment.due_at + utterance.speech_s
    talking = asyncio.create_task(_utter(session, utterance.samples))
    try:
        async with asyncio.timeout(utterance.speech_s + _TURN_PATIENCE_S):
            await _hear(session, moment, talking)
    except ServerError as error:
        user.complain(error)
    except TimeoutError:
        user.ledger.failures[f"{user.kind}: no answer within {_TURN_PATIENCE_S:g} s"] += 1
    finally:
        await hush(talking)


async def _hear(session: HalfDuplexSession, moment: Moment, talking: asyncio.Task[None]) -> None:
    async for event in session.events():
        match event:
            case Generating():
                talking.cancel()
            case Piece() if moment.answered_at is None:
                moment.answered_at = event.received_at
            case TurnDone():
                return


async def _utter(session: HalfDuplexSession, utterance: Samples) -> None:
    """In real time, as a microphone would, and then silence, by which its end is known."""
    began = time.monotonic()
    for n in range(10_000):
        piece = utterance[n * _PIECE : (n + 1) * _PIECE]
        await asyncio.sleep(began + (n + 1) * _PIECE / INPUT_RATE - time.monotonic())
        await session.send_audio(piece if len(piece) else _SILENCE)


async def _chat(user: User) -> None:
    await user.ready()
    for moment in user.moments:
        await asyncio.sleep(moment.due_at - time.monotonic())
        moment.sent_at = time.monotonic()
        try:
            await _ask(user, moment)
        except ServerError as error:
            user.complain(error)


async def _ask(user: User, moment: Moment) -> None:
    question = [Message(Role.USER, (TextPart(QUESTION),))]
    async with ask(user.url, question, **user.how) as answer:
        async for piece in answer.pieces():
            if moment.answered_at is None:
                moment.answered_at = piece.received_at
