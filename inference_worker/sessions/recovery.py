"""Rebuilds a session's state from its streams when a worker takes it over from another worker."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from antiphon.broker.client import Broker
from antiphon.broker.retry import retry_until_available
from antiphon.inference_worker.engines.common.endpointing import MAX_UTTERANCE_S
from antiphon.inference_worker.engines.types import PastTurn, PastUnit
from antiphon.inference_worker.sessions.conversation_past import (
    FinishedStep,
    StepT,
    TrimBounds,
    decode_steps,
    past_unit,
)
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    OUTPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
)
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DeltaOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InterruptedOut,
    PastSteps,
    PausedOut,
    PlaybackIn,
    PrefillDoneOut,
    PreparedOut,
    PrepareIn,
    ProgressOut,
    ResultOut,
    ResumedOut,
    StreamEntry,
    StreamPosition,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.unit_result import TokenUsage

IGNORED_AFTER_PREPARE = INPUT_RATE // 2
"""Audio after `prepared` that is ignored: microphones start with a noise."""

_REPLAYED_SAMPLES = round(1.5 * MAX_UTTERANCE_S) * INPUT_RATE

PrepareT = TypeVar("PrepareT", PrepareIn, HalfDuplexPrepareIn)
StreamRecord = tuple[StreamPosition, StreamEntry]


class Unrecoverable(Exception):
    """The streams no longer contain data that recovery needs; the message names it."""


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """The accepted `prepare` and the past that were stored, and the entries of the session after that past.

    `stored_prepare` has its place in `past`, where the units or turns follow it.
    """

    inputs: Sequence[StreamRecord] = ()
    outputs: Sequence[StreamRecord] = ()
    stored_prepare: tuple[StreamPosition, PrepareIn | HalfDuplexPrepareIn] | None = None
    past: Sequence[tuple[StreamPosition, PastSteps]] = ()

    @property
    def covered(self) -> TrimBounds | None:
        """The last entries that belong to the stored past, if there is one."""
        return TrimBounds.of(self.past[-1][1]) if self.past else None

    @property
    def count(self) -> int:
        """The duration of the past (ms), or the index of the turn after it."""
        return self.past[-1][1].count if self.past else 0

    @property
    def published(self) -> list[StreamEntry]:
        return [entry for _, entry in self.outputs]

    @property
    def shortened(self) -> bool:
        """True if a part of the stored past, or outputs that are not in it, are gone."""
        prepared = self.stored_prepare[0].n if self.stored_prepare else 0
        if self.past and self.past[-1][0].n - prepared > len(self.past):
            return True
        before = self.covered.outputs.n if self.covered else 0
        return bool(self.outputs) and self.outputs[0][0].n > before + 1

    def position_of(self, n: int) -> StreamPosition | None:
        """None if it was trimmed: then no input up to this one is left."""
        if self.covered and self.covered.inputs.n == n:
            return self.covered.inputs
        return next((position for position, _ in self.inputs if position.n == n), None)

    def nearest(self, n: int) -> StreamPosition:
        """The position of input `n`. If it was trimmed, a position before every input that is left."""
        return self.position_of(n) or StreamPosition(self.outputs[0][0].ticket, 0, n)

    def last_answered(self) -> int:
        before = self.covered.inputs.n if self.covered else 0
        return max([before, *(getattr(entry, "input_n", 0) for entry in self.published)])

    def accepted_prepare(self) -> tuple[int, StreamEntry] | None:
        """The accepted `prepare` and its number, or None if none was accepted yet.

        Raises Unrecoverable if it is lost.
        """
        prepared = next((e for e in self.published if isinstance(e, PreparedOut)), None)
        if prepared is None and not self.shortened and not self.past:
            return None
        stored = self.stored_prepare[1] if self.stored_prepare else None
        n = prepared.input_n if prepared else stored.input_n if stored else 0
        if stored is not None and stored.input_n == n:
            return n, stored
        for position, entry in self.inputs:
            if position.n == n:
                return n, entry
        raise Unrecoverable("the session's `prepare` is no longer in Redis (stream_max_entries)")


async def read_history(broker: Broker, claim: Claim) -> StreamHistory:
    """Read what a session has in Redis. Empty if no worker has published anything yet.

    The past is read first: a worker that lost the session may trim the other streams behind it.
    """
    return await retry_until_available(lambda: _read_streams(broker, claim), "read a session")


async def _read_streams(broker: Broker, claim: Claim) -> StreamHistory:
    streams, keys, sid, ticket = broker.streams, broker.keys, claim.sid, claim.ticket
    prepares: list[tuple[StreamPosition, PrepareIn | HalfDuplexPrepareIn]] = []
    past: list[tuple[StreamPosition, PastSteps]] = []
    async for position, entry in streams.history(keys.past(sid), ticket):
        if isinstance(entry, PastSteps):
            past.append((position, entry))
        else:
            prepares.append((position, entry))
    after = StreamHistory(past=past).covered or (None, None)
    outputs = [x async for x in streams.history(keys.outbound(sid), ticket, after[1])]
    if not outputs and not past:
        return StreamHistory()
    inputs = [x async for x in streams.history(keys.inbound(sid), ticket, after[0])]
    return StreamHistory(inputs, outputs, prepares[-1] if prepares else None, past)


@dataclass(frozen=True, slots=True)
class RecoveredSession(Generic[PrepareT]):
    """What every kind of conversation recovers. Input after `position` must be processed (all if None).

    `prepare` is None if none was accepted yet. `shortened`: units or turns are no longer in Redis.
    `covered`: the last entries of the past, which is stored at `stored`. `recent`: the units or turns after it.
    """

    position: StreamPosition | None = None
    prepare: PrepareT | None = None
    shortened: bool = False
    covered: TrimBounds | None = None
    recent: tuple[FinishedStep[Any], ...] = ()
    stored: tuple[StreamPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class RecoveredDuplex(RecoveredSession[PrepareIn]):
    """A full-duplex conversation. `played_ms`: playback position reported after the last unit.

    `results`: those that are still in Redis, oldest first. `usage`: of the session up to there.
    """

    units: tuple[PastUnit, ...] = ()
    results: tuple[ResultOut, ...] = ()
    usage: TokenUsage | None = None
    paused_until: float | None = None
    current_time: int = 0
    played_ms: float | None = None


def recover_duplex(history: StreamHistory) -> RecoveredDuplex:
    """If the streams were trimmed, the newest units remain. Raises Unrecoverable."""
    published = history.published
    position = history.position_of(history.last_answered())
    accepted = history.accepted_prepare()
    if accepted is None:
        return RecoveredDuplex(position)
    prepare = accepted[1]
    assert isinstance(prepare, PrepareIn)
    inputs = {place.n: entry for place, entry in history.inputs}
    acks = _PlaybackAcks(history.inputs)
    recent = tuple(
        FinishedStep(
            past_unit(result, inputs.get(result.input_n), acks.until(result.input_n)),
            history.nearest(result.input_n),
            place,
            result.current_time,
        )
        for place, result in history.outputs
        if isinstance(result, ResultOut)
    )
    return RecoveredDuplex(
        position=position,
        prepare=prepare,
        units=(*_stored(history, PastUnit), *(item.step for item in recent if item.step)),
        results=tuple(entry for entry in published if isinstance(entry, ResultOut)),
        usage=_total_usage(published),
        paused_until=_paused_until(published),
        current_time=recent[-1].count if recent else history.count,
        played_ms=acks.until(position.n) if position else None,
        shortened=history.shortened,
        covered=history.covered,
        recent=recent,
        stored=tuple(position for position, _ in history.past),
    )


def _total_usage(published: Sequence[StreamEntry]) -> TokenUsage | None:
    for entry in reversed(published):
        if isinstance(entry, ResultOut):
            return entry.total_usage
        if isinstance(entry, PreparedOut):
            return entry.usage
    return None


def _stored(history: StreamHistory, kind: type[StepT]) -> Iterator[StepT]:
    return decode_steps((entry for _, entry in history.past), kind)


class _PlaybackAcks:
    """The client's playback reports, consumed in the order of its input."""

    def __init__(self, inputs: Sequence[StreamRecord]) -> None:
        self._rest = deque(
            (place.n, entry.played_ms) for place, entry in inputs if isinstance(entry, PlaybackIn)
        )

    def until(self, n: int) -> float | None:
        """The newest report up to input `n` that was not consumed yet."""
        newest: float | None = None
        while self._rest and self._rest[0][0] <= n:
            _, newest = self._rest.popleft()
        return newest


def _paused_until(published: Sequence[StreamEntry]) -> float | None:
    """When the current pause expires (Redis-clock ms); None if not paused."""
    until: float | None = None
    for entry in published:
        if isinstance(entry, PausedOut):
            until = entry.at + entry.timeout_s * 1000
        elif isinstance(entry, ResumedOut):
            until = None
    return until


@dataclass(frozen=True, slots=True, eq=False)
class PendingTurn:
    """A turn that needs an answer; `said` is the part of it that the client already has.

    That part has `said_ms` of audio, which a client has played at `played_at` (Redis-clock ms).
    `last_input` is the input in which the utterance ended. The greeting has no utterance, and its
    `last_input` is `prepare`. `asked_at`: the Redis-clock ms at which the user stopped speaking, if known.
    """

    index: int
    last_input: StreamPosition
    utterance: Samples | None = field(repr=False)
    said: str = ""
    said_ms: float = 0.0
    played_at: float = 0.0
    asked_at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CutTurn:
    """The user interrupted the last turn, whose utterance was `question`, in the input `at`.

    `text` is the part of the answer that was played.
    """

    at: StreamPosition
    text: str
    question: Samples | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecoveredHalfDuplex(RecoveredSession[HalfDuplexPrepareIn]):
    """A half-duplex conversation.

    `open_turn` was not complete when the last worker stopped. `turns` are the completed ones,
    without failed ones. `speaking` is the last state sent to the client. `ignored_samples` is the number of
    samples still to ignore. `prepared_at` is the input that was `prepare`, None if a turn has begun.
    With `cut`, the input after the question must be processed again: what the user says began before the cut.
    """

    turns: tuple[PastTurn, ...] = ()
    open_turn: PendingTurn | None = None
    cut: CutTurn | None = None
    next_index: int = 0
    speaking: bool = False
    ignored_samples: int = 0
    prepared_at: StreamPosition | None = None


def recover_half_duplex(history: StreamHistory) -> RecoveredHalfDuplex:
    """If the streams were trimmed, the newest turns remain. Raises Unrecoverable."""
    published = history.published
    accepted = history.accepted_prepare()
    if accepted is None:
        return RecoveredHalfDuplex(position=history.position_of(history.last_answered()))
    prepared_n, prepare = accepted
    assert isinstance(prepare, HalfDuplexPrepareIn)
    _check_question(published)
    begun = [entry for entry in published if isinstance(entry, GeneratingOut)]
    done = {entry.turn_index: entry for entry in published if isinstance(entry, TurnDoneOut)}
    cuts = {entry.turn_index: entry for entry in published if isinstance(entry, InterruptedOut)}
    open_turn = _open_turn(history, begun, done)
    cut = _unanswered_cut(history, begun, cuts)
    settled = [prepared_n, *(entry.input_n for entry in done.values())]
    settled += [history.covered.inputs.n] if history.covered else []
    unplayed = begun[-1] if begun and (open_turn or cut) else None
    answered = unplayed.input_n if unplayed else max(settled)
    start = _replay_start(history.inputs, answered)
    recent = tuple(_finished_turns(history, begun, cuts))
    speaking = [entry.speaking for entry in published if isinstance(entry, VadOut)]
    next_index = max([history.count - 1, *done, *(entry.turn_index for entry in begun)]) + 1
    return RecoveredHalfDuplex(
        position=history.position_of(start),
        prepare=prepare,
        turns=(
            *_stored(history, PastTurn),
            *(item.step for item in recent if item.step),
            *([PastTurn(audio=cut.question, text=cut.text, cut=True)] if open_turn and cut else []),
        ),
        open_turn=open_turn,
        cut=cut,
        next_index=next_index,
        speaking=bool(speaking) and speaking[-1],
        ignored_samples=IGNORED_AFTER_PREPARE if start == prepared_n and not next_index else 0,
        prepared_at=None if next_index else history.nearest(prepared_n),
        shortened=history.shortened,
        covered=history.covered,
        recent=recent,
        stored=tuple(position for position, _ in history.past),
    )


def _unanswered_cut(
    history: StreamHistory, begun: Sequence[GeneratingOut], cuts: dict[int, InterruptedOut]
) -> CutTurn | None:
    last = begun[-1] if begun else None
    if last is None or (cut := cuts.get(last.turn_index)) is None:
        return None
    return CutTurn(history.nearest(cut.input_n), cut.text, _utterance(last.audio))


def _finished_turns(
    history: StreamHistory, begun: Sequence[GeneratingOut], cuts: dict[int, InterruptedOut]
) -> Iterator[FinishedStep[PastTurn]]:
    """The turns after the stored past. One whose question is no longer in Redis counts as failed."""
    questions = {entry.turn_index: entry.audio for entry in begun}
    for place, end in history.outputs:
        if isinstance(end, TurnDoneOut):
            audio, cut = questions.get(end.turn_index), cuts.get(end.turn_index)
            turn = None
            if audio is not None and not end.failed:
                text = cut.text if cut else end.text
                utterance, is_cut = _utterance(audio), cut is not None
                turn = PastTurn(audio=utterance, text=text, memo=end.memo, cut=is_cut)
            last_input = history.nearest(end.input_n)
            yield FinishedStep(turn, last_input, place, end.turn_index + 1)


def _check_question(published: Sequence[StreamEntry]) -> None:
    """An incomplete answer without its question can be neither continued nor dropped."""
    kinds = [type(e) for e in published if isinstance(e, GeneratingOut | DeltaOut | TurnDoneOut)]
    if kinds and all(kind is DeltaOut for kind in kinds):
        raise Unrecoverable("the question of the answer is no longer in Redis (stream_max_entries)")


def _open_turn(
    history: StreamHistory, begun: list[GeneratingOut], done: dict[int, TurnDoneOut]
) -> PendingTurn | None:
    if not begun or begun[-1].turn_index in done:
        return None
    last, published = begun[-1], history.published
    after = published[published.index(last) :]
    said, said_ms, played_at = "", 0.0, 0.0
    for entry in after:
        if isinstance(entry, DeltaOut):
            ms = len(entry.audio) / PcmFormat.F32.width * 1000 / OUTPUT_RATE
            said, said_ms = said + entry.text_delta, said_ms + ms
            played_at = max(played_at, entry.at) + ms
    utterance, asked_in = _utterance(last.audio), history.nearest(last.input_n)
    return PendingTurn(last.turn_index, asked_in, utterance, said, said_ms, played_at)


def _replay_start(inputs: Sequence[StreamRecord], answered: int) -> int:
    """The input after which to start: `answered`, or a later one.

    An utterance has a maximum length, so older silence does not need to be processed again.
    """
    count = 0
    for position, entry in reversed(inputs):
        if position.n <= answered:
            break
        if isinstance(entry, ChunkIn):
            if count >= _REPLAYED_SAMPLES:
                return position.n
            count += len(entry.audio) // entry.pcm.width
    return answered


def _utterance(audio: bytes) -> Samples | None:
    """None before a greeting."""
    return samples_from_bytes(audio, PcmFormat.F32) if audio else None


@dataclass(frozen=True, slots=True)
class RecoveredChat:
    """A chat request: what the client knows of its prefill, and the text it has."""

    progress: float = 0.0
    prefill_done: bool = False
    said: str = ""


def recover_chat(history: StreamHistory) -> RecoveredChat:
    """Only a streamed answer can be recovered. Raises Unrecoverable if its start is lost."""
    if history.shortened:
        raise Unrecoverable("the start of the answer is no longer in Redis (stream_max_entries)")
    published = history.published
    progress = [entry.done for entry in published if isinstance(entry, ProgressOut)]
    return RecoveredChat(
        progress=max(progress, default=0.0),
        prefill_done=any(isinstance(entry, PrefillDoneOut) for entry in published),
        said="".join(entry.text_delta for entry in published if isinstance(entry, DeltaOut)),
    )
