"""Stores a conversation's older units or turns for recovery, and trims the session's streams behind them.

A session's share of Redis does not grow with its length, except by what recovery needs of each unit.
"""

import io
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import soundfile
import structlog

from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.retry import retry_until_available
from antiphon.broker.streams import StreamWriter
from antiphon.inference_worker.engines.types import PastTurn, PastUnit
from antiphon.inference_worker.sessions.claimed_session import ClaimedSession
from antiphon.inference_worker.sessions.worker_context import WorkerContext
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    samples_from_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.entries import (
    ChunkIn,
    PastEntry,
    PastItems,
    PastSteps,
    ResultOut,
    StreamEntry,
    StreamPosition,
)

log = structlog.get_logger()

KEPT_OUTPUTS = 64
"""Outputs that are never trimmed: a client that resumes needs the entry of the last message it has."""

_ADVANCES = 9
"""How often input without a finished turn is trimmed in `stream_kept_s`."""

StepT = TypeVar("StepT", PastUnit, PastTurn)

_MEDIA = ("audio", "frames")


@dataclass(frozen=True, slots=True, eq=False)
class FinishedStep(Generic[StepT]):
    """A unit or a turn with the last entries that belong to it; `step` is None for a failed turn.

    `count`: the duration of the input so far (ms), or the index of the next turn. `at_s`: when this
    worker published it or read it again (`time.monotonic`).
    """

    step: StepT | None
    last_input: StreamPosition
    last_output: StreamPosition
    count: int
    at_s: float = field(default_factory=time.monotonic)


def past_unit(result: ResultOut, given: StreamEntry | None, played_ms: float | None) -> PastUnit:
    chunk = given if isinstance(given, ChunkIn) else None
    return PastUnit(
        audio=samples_from_bytes(chunk.audio, chunk.pcm) if chunk else None,
        frames=chunk.frames if chunk else (),
        is_listen=result.is_listen,
        text=result.text,
        end_of_turn=result.end_of_turn,
        played_ms=played_ms,
        memo=result.memo,
    )


class TrimBounds(NamedTuple):
    """The first entries to keep."""

    inputs: StreamPosition
    outputs: StreamPosition

    @classmethod
    def of(cls, past: PastSteps | PastItems) -> "TrimBounds":
        """The last entries that `past` covers."""
        return cls(StreamPosition.parse(past.last_input), StreamPosition.parse(past.last_output))

    def up_to(self, inputs: StreamPosition, outputs: StreamPosition) -> "TrimBounds":
        """The earlier of both, for each stream."""
        return TrimBounds(min(self.inputs, inputs), min(self.outputs, outputs))


class TrimPoints:
    """The entries that recovery does not need, and since when.

    A client that resumes needs the newest `kept_s` and KEPT_OUTPUTS, also of those.
    """

    def __init__(self, ticket: int, kept_s: float) -> None:
        start = StreamPosition.before(ticket)
        self.covered = TrimBounds(start, start)
        """Recovery does not need anything before it."""
        self._due = self.covered
        self._kept_s = kept_s
        self._points: deque[tuple[float, TrimBounds]] = deque()

    def add(self, at_s: float, covered: TrimBounds) -> None:
        """Recovery needs nothing before `covered`, which was written at `at_s` (`time.monotonic`)."""
        self.covered = covered
        self._points.append((at_s, covered))

    def due(self, now_s: float, last_output: StreamPosition) -> TrimBounds | None:
        """What may be trimmed now, or None."""
        inputs, outputs = self._due
        for at_s, point in self._points:
            if at_s > now_s - self._kept_s:
                break
            inputs = point.inputs
            if point.outputs.n <= last_output.n - KEPT_OUTPUTS:
                outputs = point.outputs
        self._due = TrimBounds(inputs, outputs)
        while self._points and self._points[0][1].outputs < outputs:
            self._points.popleft()
        return self._due if inputs.n else None


class ConversationPast(Generic[StepT]):
    """Stores steps in batches of `batch`, except those whose `count` is within `lag` of the newest.

    Trimmed is what is stored, is no longer needed for a resume, and is on the recorder's disk.
    `recorded` is False if there is nothing to wait for, because the client does not consent.
    """

    def __init__(
        self, context: WorkerContext, session: ClaimedSession, *, lag: int, batch: int
    ) -> None:
        self.recorded = True
        self.keeps_audio = context.processor.info.replayed_audio > 0
        self._broker = context.broker
        self._session = session
        self._lag = lag
        self._batch = batch
        steps = context.processor.info.replayed_audio
        self._max_stored = -(-steps // batch) + 1 if steps else None
        self._stored: deque[StreamPosition] = deque()
        self._writer: StreamWriter | None = None
        self._recent: deque[FinishedStep[StepT]] = deque()
        self._points = TrimPoints(session.claim.ticket, context.settings.stream_kept_s)
        self._advance_s = context.settings.stream_kept_s / _ADVANCES
        self._advanced_s = 0.0
        self._trimmed: TrimBounds | None = None

    async def open(self) -> None:
        """Shut out the previous worker. Required before the past is read for recovery."""
        streams, claim = self._broker.streams, self._session.claim
        key = claim.sid, claim.ticket, claim.epoch
        self._writer = await retry_until_available(
            lambda: streams.past_writer(*key), "open a session's past"
        )

    async def append(self, entry: PastEntry | PastItems) -> StreamPosition:
        if self._writer is None:
            await self.open()
        assert self._writer is not None
        append = partial(self._writer.append, entry)
        return await retry_until_available(append, "store a session's past")

    def restore(
        self,
        covered: TrimBounds | None,
        recent: Sequence[FinishedStep[StepT]],
        stored: Sequence[StreamPosition],
    ) -> None:
        """Continue after another worker, which has stored the steps up to `covered` at `stored`."""
        self._stored.extend(stored)
        if covered is not None:
            self._points.add(time.monotonic(), covered)
        self._recent.extend(recent if self.keeps_audio else map(_without_media, recent))

    async def add(self, finished: FinishedStep[StepT]) -> None:
        self._recent.append(finished)
        before = finished.count - self._lag
        due = sum(item.count <= before for item in self._recent)
        if due >= self._batch:
            await self._store(due)

    def amend(self, change: Callable[[StepT], StepT]) -> None:
        """Change the newest step, which `lag` keeps from being stored."""
        newest = self._recent.pop()
        step = None if newest.step is None else change(newest.step)
        self._recent.append(replace(newest, step=step))

    async def advance(self, position: StreamPosition) -> None:
        """No utterance is open at this input: recovery does not need anything before it."""
        now_s = time.monotonic()
        if now_s - self._advanced_s >= self._advance_s:
            self._advanced_s = now_s
            self._points.add(now_s, self._points.covered._replace(inputs=position))
            await self._trim()

    async def _store(self, count: int) -> None:
        steps = [self._recent.popleft() for _ in range(count)]
        entry = encode_steps(steps, with_audio=self.keeps_audio)
        self._stored.append(await self.append(entry))
        last = steps[-1]
        self._points.add(last.at_s, TrimBounds(last.last_input, last.last_output))
        await self._delete_oldest()
        await self._trim()

    async def _delete_oldest(self) -> None:
        """An engine that reads the audio of its past again reads the newest steps only."""
        if self._max_stored is None or len(self._stored) <= self._max_stored:
            return
        oldest = [self._stored.popleft() for _ in range(len(self._stored) - self._max_stored)]
        delete = partial(self._broker.streams.delete_past, self._session.claim.sid, *oldest)
        await retry_until_available(delete, "delete a session's past")

    async def _trim(self) -> None:
        """A failure delays it until the next step is stored."""
        broker, claim = self._broker, self._session.claim
        bounds = self._points.due(time.monotonic(), self._session.last_output)
        if bounds is None:
            return
        try:
            if self.recorded:
                progress = await broker.recorder_progress.load(claim.ticket)
                if progress is None:
                    return
                on_disk = (StreamPosition.parse(progress[side]) for side in ("in", "out"))
                bounds = bounds.up_to(*on_disk)
            if bounds != self._trimmed:
                await broker.streams.trim(claim.sid, *bounds)
                self._trimmed = bounds
        except BrokerUnavailable as error:
            log.info("trim_delayed", error=str(error))


def encode_steps(finished: Sequence[FinishedStep[StepT]], *, with_audio: bool) -> PastSteps:
    """One entry for steps in a row. Their sound is stored with 16 bits per sample."""
    steps = [item.step for item in finished if item.step is not None]
    last = finished[-1]
    sounds = [step.audio for step in steps if step.audio is not None] if with_audio else []
    return PastSteps(
        last_input=last.last_input.id(),
        last_output=last.last_output.id(),
        count=last.count,
        steps=[_header(step, with_audio=with_audio) for step in steps],
        audio=_flac(np.concatenate(sounds)) if sounds else b"",
        frames=tuple(frame for step in steps for frame in _frames(step)) if with_audio else (),
    )


def decode_steps(entries: Iterable[PastSteps], kind: type[StepT]) -> Iterator[StepT]:
    for entry in entries:
        rest, frames = _sound(entry.audio), list(entry.frames)
        for header in entry.steps:
            values = dict(header)
            count, n_frames = values.pop("samples"), values.pop("frames")
            values["audio"] = None if count is None else rest[:count]
            if n_frames:
                values["frames"] = tuple(frames[:n_frames])
            rest, frames = rest[count or 0 :], frames[n_frames:]
            yield kind(**values)


def _without_media(finished: FinishedStep[StepT]) -> FinishedStep[StepT]:
    step = finished.step
    if isinstance(step, PastUnit):
        step = replace(step, audio=None, frames=())
    elif step is not None:
        step = replace(step, audio=None)
    return replace(finished, step=step)


def _header(step: PastUnit | PastTurn, *, with_audio: bool) -> dict[str, Any]:
    header = {x.name: getattr(step, x.name) for x in fields(step) if x.name not in _MEDIA}
    kept = with_audio and step.audio is not None
    header["samples"] = len(step.audio) if kept and step.audio is not None else None
    header["frames"] = len(_frames(step)) if with_audio else 0
    return header


def _frames(step: PastUnit | PastTurn) -> tuple[bytes, ...]:
    return step.frames if isinstance(step, PastUnit) else ()


def _flac(samples: Samples) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, to_pcm16(samples), INPUT_RATE, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def _sound(flac: bytes) -> Samples:
    if not flac:
        return np.zeros(0, dtype=np.float32)
    pcm, _ = soundfile.read(io.BytesIO(flac), dtype="int16")
    return samples_from_bytes(pcm.tobytes(), PcmFormat.S16)
