"""The past of an engine that reads the audio of its newest steps again: older steps go, the `prepare` stays."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from antiphon.broker.client import Broker
from antiphon.inference_worker.engines.types import PastTurn
from antiphon.inference_worker.sessions.conversation_past import ConversationPast, FinishedStep
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import PastSteps, PrepareIn, StreamPosition

SID, TICKET, REPLAYED = "adx_1", 7, 3


def _past(broker: Broker, epoch: int) -> ConversationPast[PastTurn]:
    context: Any = SimpleNamespace(
        broker=broker,
        processor=SimpleNamespace(info=SimpleNamespace(replayed_audio=REPLAYED)),
        settings=SimpleNamespace(stream_kept_s=90.0),
    )
    claim = SimpleNamespace(sid=SID, ticket=TICKET, epoch=epoch)
    session: Any = SimpleNamespace(claim=claim, last_output=StreamPosition(TICKET, epoch, 1))
    return ConversationPast[PastTurn](context, session, lag=0, batch=1)


def _step(n: int) -> FinishedStep[PastTurn]:
    turn = PastTurn(audio=np.zeros(160, np.float32), text=str(n), memo={})
    position = StreamPosition(TICKET, 1, n)
    return FinishedStep(turn, position, position, 0)


async def _stored(broker: Broker) -> tuple[list[StreamPosition], list[str]]:
    entries = [x async for x in broker.streams.history(broker.keys.past(SID), TICKET)]
    (_, first), *others = entries
    assert isinstance(first, PrepareIn)
    steps = [entry for _, entry in others if isinstance(entry, PastSteps)]
    return [place for place, _ in others], [step["text"] for e in steps for step in e.steps]


async def test_old_steps_are_deleted_but_not_the_prepare(broker: Broker) -> None:
    first = _past(broker, 1)
    await first.append(PrepareIn(system_prompt="Hi.", config=DuplexConfig(), input_n=1))
    for n in range(1, 10):
        await first.add(_step(n))
    places, texts = await _stored(broker)
    assert texts == [str(n) for n in range(9 - REPLAYED, 10)]
    second = _past(broker, 2)
    await second.open()
    second.restore(None, [], places)
    for n in range(10, 12):
        await second.add(_step(n))
    assert (await _stored(broker))[1] == [str(n) for n in range(11 - REPLAYED, 12)]
