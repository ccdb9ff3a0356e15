"""The half-duplex conversation: which input means what where, and what its streams tell a successor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from antiphon.inference_worker.engines.common.endpointing import MAX_UTTERANCE_S
from antiphon.inference_worker.engines.types import PastTurn
from antiphon.inference_worker.session.records import (
    History,
    PastLost,
    Record,
    accepted_prepare,
    begins_late,
)
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, samples_from_bytes
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InEntry,
    StopIn,
    StreamEntry,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import SessionState
from antiphon.shared_schemas.stream_position import StreamPosition

GUARD_SAMPLES = INPUT_RATE // 2
"""Audio after `prepared` that is not listened to: microphones begin with a noise."""

_REHEARD_SAMPLES = round(1.5 * MAX_UTTERANCE_S) * INPUT_RATE


class Action(StrEnum):
    """What the runner does about one input."""

    PREPARE = "prepare"
    HEAR = "hear"
    STOP = "stop"
    IGNORE = "ignore"


_ACTIONS: dict[SessionState, dict[type[InEntry], Action]] = {
    SessionState.ASSIGNED: {HalfDuplexPrepareIn: Action.PREPARE, StopIn: Action.STOP},
    SessionState.ACTIVE: {ChunkIn: Action.HEAR, StopIn: Action.STOP},
}


def decide(state: SessionState, entry: InEntry) -> Action:
    """The action for an input while no answer is made; what is out of turn is ignored."""
    return _ACTIONS[state].get(type(entry), Action.IGNORE)


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A turn whose answer is to be made; `said` of it the client already has.

    `input_n` is the input in which the utterance ended.
    """

    index: int
    input_n: int
    utterance: Samples = field(repr=False)
    said: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """Where the conversation stands.

    What was sent after `position` is to be heard again, from the session's start if None.
    `open_turn` was under way when the last worker fell silent; `turns` are the finished ones,
    without those that failed. `speaking` is what the client was last told; `guard` is the audio
    still not to be listened to, in samples. `shortened`: the streams have let the first turns go.
    """

    position: StreamPosition | None = None
    prepare: HalfDuplexPrepareIn | None = None
    turns: tuple[PastTurn, ...] = ()
    open_turn: Turn | None = None
    next_index: int = 0
    speaking: bool = False
    guard: int = 0
    shortened: bool = False


def recall(inputs: History, outputs: History, beginning: Record | None = None) -> Past:
    """Rebuild the state of a session from both of its streams, and from the beginning that was kept.

    Of a session longer than its streams the newest turns are left. Raises PastLost.
    """
    said = [entry for _, entry in outputs]
    accepted = accepted_prepare(inputs, outputs, beginning)
    if accepted is None:
        refused = max((getattr(entry, "input_n", 0) for entry in said), default=0)
        return Past(position=_place(inputs, refused))
    prepared_n, prepare = accepted
    _check_turns(said)
    begun = [entry for entry in said if isinstance(entry, GeneratingOut)]
    done = {entry.turn_index: entry for entry in said if isinstance(entry, TurnDoneOut)}
    open_turn = _open_turn(said, begun, done)
    settled = [prepared_n, *(entry.input_n for entry in done.values())]
    answered = open_turn.input_n if open_turn else max(settled)
    start = _hear_from(inputs, answered)
    return Past(
        position=_place(inputs, start),
        prepare=_prepare(prepare),
        turns=tuple(_past_turn(b, done[b.turn_index]) for b in begun if _counts(b, done)),
        open_turn=open_turn,
        next_index=max([*done, *(entry.turn_index for entry in begun)], default=-1) + 1,
        speaking=_told_speaking(said),
        guard=GUARD_SAMPLES if start == prepared_n else 0,
        shortened=begins_late(outputs),
    )


def _check_turns(said: Sequence[StreamEntry]) -> None:
    """An answer under way whose question is gone can neither be made nor be left."""
    turns = [entry for entry in said if isinstance(entry, GeneratingOut | DeltaOut | TurnDoneOut)]
    if turns and all(isinstance(entry, DeltaOut) for entry in turns):
        raise PastLost("the question being answered is no longer in Redis (stream_max_entries)")


def _place(inputs: History, n: int) -> StreamPosition | None:
    return next((position for position, _ in inputs if position.n == n), None)


def _prepare(entry: StreamEntry) -> HalfDuplexPrepareIn:
    assert isinstance(entry, HalfDuplexPrepareIn)
    return entry


def _counts(begun: GeneratingOut, done: dict[int, TurnDoneOut]) -> bool:
    return begun.turn_index in done and not done[begun.turn_index].failed


def _past_turn(begun: GeneratingOut, done: TurnDoneOut) -> PastTurn:
    return PastTurn(audio=_samples(begun.audio), text=done.text, memo=done.memo)


def _open_turn(
    said: Sequence[StreamEntry], begun: list[GeneratingOut], done: dict[int, TurnDoneOut]
) -> Turn | None:
    if not begun or begun[-1].turn_index in done:
        return None
    last = begun[-1]
    told = [entry.text_delta for entry in said[said.index(last) :] if isinstance(entry, DeltaOut)]
    return Turn(last.turn_index, last.input_n, _samples(last.audio), "".join(told))


def _hear_from(inputs: History, answered: int) -> int:
    """The input after which to listen again: `answered`, or later if more than enough has come.

    An utterance is bounded, so silence from before the longest one need not be heard twice.
    """
    heard = 0
    for position, entry in reversed(inputs):
        if position.n <= answered:
            break
        if isinstance(entry, ChunkIn):
            if heard >= _REHEARD_SAMPLES:
                return position.n
            heard += len(entry.audio) // entry.pcm.width
    return answered


def _told_speaking(said: Sequence[StreamEntry]) -> bool:
    told = [entry.speaking for entry in said if isinstance(entry, VadOut)]
    return bool(told) and told[-1]


def _samples(audio: bytes) -> Samples:
    return samples_from_bytes(audio, PcmFormat.F32)
