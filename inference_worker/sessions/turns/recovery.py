"""Rebuilds a session from its streams when a worker takes it over from another worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.broker.client import Broker
from antiphon.inference_worker.sessions.conversation_past import TrimBounds
from antiphon.inference_worker.sessions.recovery import Unrecoverable
from antiphon.inference_worker.sessions.turns.conversation import TurnsConversation
from antiphon.inference_worker.sessions.turns.listening import Listener
from antiphon.shared_schemas.audio import samples_from_bytes
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ClearIn,
    CommitIn,
    InEntry,
    ItemOut,
    OutEntry,
    PastItems,
    StreamPosition,
    TranscriptOut,
    VadOut,
)
from antiphon.shared_schemas.registry import Claim


@dataclass(slots=True)
class RecoveredTurns:
    """Input after `position` must be handled; all if it is None.

    `speech_id`: the item that the speech becomes which continues. `untranscribed`: items without a transcript.
    """

    conversation: TurnsConversation = field(default_factory=TurnsConversation)
    listener: Listener = field(default_factory=Listener)
    position: StreamPosition | None = None
    speech_id: str = ""
    untranscribed: list[str] = field(default_factory=list)
    covered: TrimBounds | None = None

    def apply_input(self, entry: InEntry) -> None:
        """Blocks while it looks for speech."""
        self.conversation.apply_input(entry)
        self.listener.configure(self.conversation.config.vad)
        match entry:
            case ChunkIn():
                self.listener.hear(samples_from_bytes(entry.audio, entry.pcm))
            case CommitIn():
                self.listener.commit()
            case ClearIn():
                self.listener.clear()

    def apply_output(self, entry: OutEntry) -> None:
        self.conversation.apply_output(entry)
        match entry:
            case VadOut(speaking=True):
                self.speech_id = entry.item_id
            case ItemOut():
                self.speech_id = ""
                self.untranscribed.append(entry.item_id)
            case TranscriptOut() if entry.item_id in self.untranscribed:
                self.untranscribed.remove(entry.item_id)


@dataclass(frozen=True, slots=True)
class TurnsHistory:
    """What a session has in Redis: its state when it was last stored, and the entries after that.

    `stored`: the positions of all states.
    """

    past: PastItems | None = None
    inputs: Sequence[tuple[StreamPosition, InEntry]] = ()
    outputs: Sequence[tuple[StreamPosition, OutEntry]] = ()
    stored: Sequence[StreamPosition] = ()


async def read_turns(broker: Broker, claim: Claim) -> TurnsHistory:
    """The past is read first: a worker that lost the session may trim the other streams behind it."""
    streams, keys, sid, ticket = broker.streams, broker.keys, claim.sid, claim.ticket
    pasts = [record async for record in streams.history(keys.past_items(sid), ticket)]
    past = pasts[-1][1] if pasts else None
    after = TrimBounds.of(past) if past else None
    outputs = [
        record
        async for record in streams.history(
            keys.outbound(sid), ticket, after.outputs if after else None
        )
    ]
    inputs = [
        record
        async for record in streams.history(
            keys.inbound(sid), ticket, after.inputs if after else None
        )
    ]
    return TurnsHistory(past, inputs, outputs, [position for position, _ in pasts])


def recover_turns(history: TurnsHistory) -> RecoveredTurns:
    """Apply each output after the input that it names, as the worker before did. Raises Unrecoverable."""
    past = history.past
    covered = TrimBounds.of(past) if past else None
    state = RecoveredTurns(covered=covered)
    if past is not None and covered is not None:
        state.conversation = TurnsConversation.restored(past)
        state.listener = Listener(past.state["samples"])
        state.listener.configure(state.conversation.config.vad)
        state.position = covered.inputs
    first = covered or TrimBounds(StreamPosition(0, 0, 0), StreamPosition(0, 0, 0))
    _check_whole(history.outputs, first.outputs.n)
    handled = max([first.inputs.n, *(getattr(x, "input_n", 0) for _, x in history.outputs)])
    if handled > first.inputs.n:
        _check_whole(history.inputs, first.inputs.n)
    inputs = iter([record for record in history.inputs if record[0].n <= handled])
    waiting = next(inputs, None)
    for _, output in history.outputs:
        while waiting is not None and waiting[0].n <= getattr(output, "input_n", 0):
            state.apply_input(waiting[1])
            state.position, waiting = waiting[0], next(inputs, None)
        state.apply_output(output)
    while waiting is not None:
        state.apply_input(waiting[1])
        state.position, waiting = waiting[0], next(inputs, None)
    return state


def _check_whole(records: Sequence[tuple[StreamPosition, InEntry | OutEntry]], before: int) -> None:
    if records and records[0][0].n > before + 1:
        raise Unrecoverable("items of the session are no longer in Redis (stream_max_entries)")
