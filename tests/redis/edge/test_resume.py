"""What the edge of a resuming client reads from the streams: the phase, and the messages after a number."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.edge.errors import ResumeExpired
from antiphon.edge.protocols.chat import ChatMachine
from antiphon.edge.protocols.duplex import DuplexMachine
from antiphon.edge.protocols.machine import Finish, Phase, Send
from antiphon.edge.session.resume import first_seq, load_missed_messages
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig
from antiphon.shared_schemas.entries import (
    ChatIn,
    ChunkIn,
    DeltaOut,
    DiagnosticIn,
    ErrorOut,
    InEntry,
    OutEntry,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResumeIn,
    StopIn,
    StoppedOut,
    StreamPosition,
)
from support.edge_harness import result

SID, TICKET = "adx_1", 7
PREPARE = PrepareIn(system_prompt="Hi.", config=DuplexConfig())
PREPARED = PreparedOut(input_n=1, prompt_length=7)
FAILED = ErrorOut(code="inference_error", message="bad")
CHUNK, PAUSE, DIAGNOSTIC = ChunkIn(audio=b"abcd"), PauseIn(timeout_s=9), DiagnosticIn(metrics={})
PLAYED = PlaybackIn(played_ms=1.0)


def seq(n: int, index: int = 0) -> int:
    """Of a message of the output entry `n`."""
    return first_seq(StreamPosition(TICKET, 1, n)) + index


async def write(
    broker: Broker, inputs: Sequence[InEntry] = (), outputs: Sequence[OutEntry] = ()
) -> None:
    writer = await broker.streams.input_writer(SID, TICKET)
    for entry in inputs:
        position = await writer.append(entry)
        if isinstance(entry, PrepareIn) and PREPARED in outputs:
            past = await broker.streams.past_writer(SID, TICKET, 1)
            await past.append(replace(entry, input_n=position.n))
    worker = await broker.streams.output_writer(SID, TICKET, 1)
    for output in outputs:
        await worker.append(output)


async def resume(
    broker: Broker, last: int, *, connection: int = 2, granted: bool = True
) -> tuple[list[tuple[int | None, str]], DuplexMachine, list[Finish]]:
    """(number, type) of each missed message, the machine, and how the session ended."""
    missed = await load_missed_messages(broker, SID, TICKET, connection, last)
    machine = DuplexMachine(SID, "rec", notices=True)
    machine.restore(missed.last_inputs.prepared, missed.last_inputs.recent, granted=granted)
    actions = [action async for action in missed.actions(machine, granted=granted)]
    sent = [(a.message.seq, a.message.type) for a in actions if isinstance(a, Send)]
    return sent, machine, [action for action in actions if isinstance(action, Finish)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "phase"),
    [
        ([], [], Phase.ASSIGNED),
        ([DIAGNOSTIC], [], Phase.ASSIGNED),
        ([PREPARE], [], Phase.PREPARING),
        ([PREPARE, DIAGNOSTIC], [PREPARED], Phase.ACTIVE),
        ([PREPARE], [ErrorOut(input_n=1, code="inference_error", message="bad")], Phase.ASSIGNED),
        ([PREPARE, CHUNK, CHUNK], [PREPARED, result(2)], Phase.ACTIVE),
        ([PREPARE, CHUNK, PAUSE], [PREPARED, result(2)], Phase.PAUSED),
        ([PREPARE, PAUSE, PLAYED, DIAGNOSTIC], [PREPARED], Phase.PAUSED),
        ([PREPARE, PAUSE, ResumeIn(), PLAYED], [PREPARED], Phase.ACTIVE),
        ([PREPARE, CHUNK, StopIn()], [PREPARED], Phase.STOPPING),
        ([PREPARE, StopIn()], [], Phase.STOPPING),
        ([PREPARE, StopIn()], [StoppedOut()], Phase.OVER),
    ],
)
async def test_the_phase_follows_from_the_newest_inputs(
    broker: Broker, inputs: list[InEntry], outputs: list[OutEntry], phase: Phase
) -> None:
    await write(broker, inputs, outputs)
    assert (await resume(broker, 0))[1].phase is phase


async def test_messages_follow_from_any_number(broker: Broker) -> None:
    outputs = [
        PREPARED,
        result(2),
        FAILED,
        PausedOut(input_n=3, timeout_s=9),
        StoppedOut(),
    ]
    await write(broker, [PREPARE, CHUNK, PAUSE, StopIn()], outputs)
    types = ["prepared", "result", "error", "paused", "stopped"]
    whole = [(seq(n), kind) for n, kind in enumerate(types, start=1)]
    for connection, last in enumerate([0, 1, *(seq(n) for n in range(1, 6))], start=2):
        sent, machine, [finish] = await resume(broker, last, connection=connection)
        assert sent == [message for message in whole if message[0] > last]
        assert (machine.phase, int(finish.close)) == (Phase.OVER, 1000)


async def test_a_client_may_have_a_part_of_the_messages_of_an_entry(broker: Broker) -> None:
    unit = replace(result(2), context_left_s=20.0)
    await write(broker, [PREPARE, CHUNK], [PREPARED, unit])
    both = [(seq(2), "result"), (seq(2, 1), "notice")]
    for connection, last in enumerate([seq(1), seq(2), seq(2, 1)], start=2):
        sent, _, _ = await resume(broker, last, connection=connection)
        assert sent == [message for message in both if message[0] > last]


@pytest.mark.parametrize(
    "last",
    [2, 15, seq(1, 1), seq(2, 1), seq(3), 10**10, 10**15 - 1, first_seq(StreamPosition(7, 2, 1))],
)
async def test_a_number_that_was_never_sent_is_refused(broker: Broker, last: int) -> None:
    await write(broker, [PREPARE, CHUNK], [PREPARED, result(2)])
    with pytest.raises(ResumeExpired):
        await resume(broker, last)
    assert [kind for _, kind in (await resume(broker, 0, connection=3))[0]] == [
        "prepared",
        "result",
    ]


async def test_messages_that_a_failover_has_lost_are_awaited(broker: Broker) -> None:
    """The worker writes its newest entries again on a master that lacks them."""
    await write(broker, [PREPARE, CHUNK, CHUNK], [PREPARED, result(2)])
    resuming = asyncio.create_task(resume(broker, seq(3)))
    await asyncio.sleep(0.2)
    worker = await broker.streams.output_writer(SID, TICKET, 1)
    assert not resuming.done()
    await worker.append(replace(result(3), context_left_s=20.0))
    assert (await resuming)[0] == [(seq(3, 1), "notice")]


async def test_a_waiting_chat_keeps_its_streaming_mode(broker: Broker) -> None:
    await write(broker, [ChatIn(content=[], options=ChatOptions(streaming=False))])
    missed = await load_missed_messages(broker, SID, TICKET, 2, 0)
    machine = ChatMachine("rec", resumable=True)
    machine.restore(missed.last_inputs.prepared, missed.last_inputs.recent, granted=False)
    [done] = [a.message.wire() for a in machine.receive(StopIn()) if isinstance(a, Send)]
    assert done["audio_data"] is None  # only a non-streaming answer has it


@pytest.mark.parametrize("lost", [range(1, 3), range(3, 4)], ids=["first", "middle"])
async def test_lost_messages_cannot_be_sent(broker: Broker, raw: Redis, lost: range) -> None:
    """The first ones are trimmed; a failover can lose later ones."""
    words = [DeltaOut(text_delta=str(n)) for n in range(9)]
    await write(broker, [ChatIn(content=[], options=ChatOptions())], words)
    ids = [StreamPosition(TICKET, 1, n).id() for n in lost]
    await raw.xdel(broker.keys.outbound(SID), *ids)
    missed = await load_missed_messages(broker, SID, TICKET, 2, 1)
    with pytest.raises(ResumeExpired):
        assert [m async for m in missed.actions(ChatMachine("rec", resumable=True))]
