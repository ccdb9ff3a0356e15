"""Restores a connection from its streams and checkpoints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.errors import StaleFence
from antiphon.edge.errors import ResumeExpired
from antiphon.edge.protocols.chat import ChatMachine
from antiphon.edge.protocols.duplex import DuplexMachine
from antiphon.edge.protocols.machine import Phase
from antiphon.edge.session.resume import MissedMessages, load_missed_messages
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    Checkpoint,
    ChunkIn,
    DeltaOut,
    DiagnosticIn,
    ErrorOut,
    InEntry,
    OutEntry,
    PausedOut,
    PauseIn,
    PreparedOut,
    PrepareIn,
    StopIn,
    StoppedOut,
    StreamPosition,
)

pytestmark = pytest.mark.on_cluster

SID, TICKET = "adx_1", 7
PREPARE = PrepareIn(system_prompt="Hi.", config=DuplexConfig())
PREPARED = PreparedOut(input_n=1, prompt_length=7)
FAILED = ErrorOut(code="inference_error", message="bad")


def memory(phase: Phase) -> dict[str, Any]:
    machine = DuplexMachine(SID, "rec")
    machine.phase = phase
    return machine.snapshot()


def mark(
    seq: int, phase: Phase, *received: str, output_count: int = 0, input_count: int = 0
) -> Checkpoint:
    """The entries before the checkpoint are counted by `output_count` and `input_count`."""
    first = seq - len(received) + 1
    return Checkpoint(
        seq=seq,
        last_output=StreamPosition(TICKET, 1, output_count).id(),
        last_input=StreamPosition(TICKET, 1, input_count).id(),
        snapshot=memory(phase),
        messages=[{"type": name, "seq": first + i} for i, name in enumerate(received)],
    )


async def write(
    broker: Broker,
    notes: list[Checkpoint | InEntry],
    inputs: list[InEntry] = [],  # noqa: B006 - only read
    outputs: list[OutEntry] = [],  # noqa: B006
) -> None:
    """The three streams of one session."""
    streams = broker.streams
    for writer, entries in (
        (await streams.checkpoint_writer(SID, TICKET), notes),
        (await streams.input_writer(SID, TICKET), inputs),
        (await streams.output_writer(SID, TICKET, 1), outputs),
    ):
        for entry in entries:
            await writer.append(entry)


async def replay(
    broker: Broker, last: int, connection: int = 2
) -> tuple[list[tuple[int, str]], DuplexMachine, MissedMessages]:
    """(number, type) of each replayed message."""
    past = await load_missed_messages(broker, SID, TICKET, connection, last)
    machine = DuplexMachine(SID, "rec")
    received = [message.wire() async for message in past.messages(machine)]
    return [(wire["seq"], wire["type"]) for wire in received], machine, past


BEGUN = [mark(0, Phase.QUEUED), mark(1, Phase.ASSIGNED, "queue_done")]


async def test_a_prepare_without_a_checkpoint_is_executed_again(broker: Broker) -> None:
    await write(broker, [*BEGUN], [PREPARE], [PREPARED])
    received, machine, past = await replay(broker, 1)
    assert received == [(2, "prepared")]
    assert machine.phase is Phase.ACTIVE
    assert (past.seq, past.delivered) == (2, StreamPosition(TICKET, 1, 1))


async def test_messages_without_a_checkpoint_follow_those_that_the_client_has(
    broker: Broker,
) -> None:
    """If `stop` ran first, `prepared` would be lost and every later number would be wrong."""
    notes = [*BEGUN, mark(1, Phase.PREPARING, input_count=1)]
    await write(broker, [*notes], [PREPARE, StopIn()], [PREPARED, StoppedOut()])
    received, machine, past = await replay(broker, 2)
    assert received == [(3, "stopped")]
    assert past.finish is not None
    assert machine.phase is Phase.OVER


async def test_a_later_message_may_precede_an_unconfirmed_one(broker: Broker) -> None:
    notes = [*BEGUN, mark(1, Phase.PREPARING, input_count=1)]
    await write(broker, [*notes], [PREPARE, StopIn()], [PREPARED])
    received, machine, past = await replay(broker, 1)
    assert (received, past.seq, machine.phase) == ([], 1, Phase.STOPPING)


async def test_checkpoints_place_other_messages_between_the_entries(broker: Broker) -> None:
    notes = [
        *BEGUN,
        mark(1, Phase.PREPARING, input_count=1),
        mark(3, Phase.ACTIVE, "error", output_count=1, input_count=1),
        mark(3, Phase.PAUSED, output_count=1, input_count=2),
        mark(6, Phase.PAUSED, "error", "error", output_count=2, input_count=2),
    ]
    inputs = [PREPARE, PauseIn(timeout_s=9)]
    outputs = [PREPARED, PausedOut(input_n=2, timeout_s=9), FAILED]
    await write(broker, [*notes], inputs, outputs)
    whole = ["queue_done", "prepared", "error", "paused", "error", "error", "error"]
    for connection, last in enumerate(range(8), start=2):
        received, machine, past = await replay(broker, last, connection)
        assert received == list(enumerate(whole, start=1))[last:]
        assert (past.seq, machine.phase) == (7, Phase.PAUSED)


async def test_messages_held_in_the_queue_stay_held(broker: Broker) -> None:
    diagnostic = DiagnosticIn(metrics={"fps": 1})
    notes = [mark(0, Phase.QUEUED), diagnostic, PREPARE, mark(1, Phase.QUEUED_PREPARED, "queued")]
    await write(broker, [*notes])
    _, machine, past = await replay(broker, 1)
    assert machine.waiting
    assert [type(entry) for entry in machine.held] == [DiagnosticIn, PrepareIn]
    assert len(past.pending) == 2


async def test_input_forwarded_with_an_unseen_grant_is_not_forwarded_again(broker: Broker) -> None:
    diagnostic = DiagnosticIn(metrics={"fps": 1})
    notes = [diagnostic, PREPARE, mark(1, Phase.QUEUED_PREPARED, "queued")]
    await write(broker, [*notes], [diagnostic], [PREPARED])
    received, machine, _ = await replay(broker, 1)
    assert received == []  # the grant is sent first
    assert [type(entry) for entry in machine.held] == [PrepareIn]
    machine.granted()
    assert machine.phase is Phase.PREPARING


async def test_the_earlier_connection_is_fenced(broker: Broker) -> None:
    await write(broker, [*BEGUN])
    old = await broker.streams.checkpoint_writer(SID, TICKET)
    await replay(broker, 1)
    with pytest.raises(StaleFence):
        await old.append(mark(2, Phase.ASSIGNED, "error"))


async def test_a_number_that_is_too_old_is_rejected(broker: Broker) -> None:
    await write(broker, [mark(40, Phase.ACTIVE), mark(90, Phase.ACTIVE)])
    with pytest.raises(ResumeExpired):
        await load_missed_messages(broker, SID, TICKET, 2, 39)
    assert (await load_missed_messages(broker, SID, TICKET, 3, 40)).last == 40


async def test_a_chat_keeps_its_streaming_mode(broker: Broker) -> None:
    request = ChatIn(content=[], options=ChatOptions(streaming=False))
    before = ChatMachine(request, "rec", resumable=True)
    before.granted()
    begun = mark(1, Phase.QUEUED, "queue_done")
    note = Checkpoint(**{**_fields(begun), "snapshot": before.snapshot()})
    done = ChatDoneOut(text="Hi.", generated_tokens=1, input_tokens=1, duration_ms=1.0)
    await write(broker, [note], [request], [DeltaOut(text_delta="Hi."), done])
    past = await load_missed_messages(broker, SID, TICKET, 2, 1)
    machine = ChatMachine(None, "rec", resumable=True)
    received = [message.wire() async for message in past.messages(machine)]
    assert [wire["type"] for wire in received] == ["chunk", "done"]
    assert received[-1]["audio_data"] is None  # only a non-streaming answer has it


def _fields(note: Checkpoint) -> dict[str, Any]:
    return {item.name: getattr(note, item.name) for item in fields(note)}


async def test_audio_between_the_commands_changes_nothing(broker: Broker) -> None:
    chunk = ChunkIn(audio=b"abcd")
    notes = [*BEGUN, mark(2, Phase.ACTIVE, output_count=1, input_count=1)]
    await write(broker, [*notes], [PREPARE, chunk, PauseIn(timeout_s=9), chunk], [PREPARED])
    received, machine, _ = await replay(broker, 2)
    assert (received, machine.phase) == ([], Phase.PAUSED)


@pytest.mark.parametrize("lost", [range(1, 3), range(3, 4)], ids=["first", "middle"])
async def test_lost_messages_cannot_be_replayed(broker: Broker, raw: Redis, lost: range) -> None:
    """The first ones are trimmed; a failover can lose later ones. Numbers after a gap would be wrong."""
    words = [DeltaOut(text_delta=str(n)) for n in range(9)]
    request = ChatIn(content=[], options=ChatOptions())
    machine = ChatMachine(request, "rec", resumable=True)
    machine.granted()
    begun = Checkpoint(
        **{**_fields(mark(1, Phase.QUEUED, "queue_done")), "snapshot": machine.snapshot()}
    )
    await write(broker, [begun], [request], [*words])
    ids = [StreamPosition(TICKET, 1, n).id() for n in lost]
    await raw.xdel(broker.keys.outbound(SID), *ids)
    past = await load_missed_messages(broker, SID, TICKET, 2, 1)
    with pytest.raises(ResumeExpired):
        assert [m async for m in past.messages(ChatMachine(None, "rec", resumable=True))]
