"""The base of protocols whose clients stream sound in small pieces, such as telephones."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from antiphon.edge.errors import Fault
from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder, FormatEncoder
from antiphon.edge.protocols.machine import (
    Action,
    Actions,
    Command,
    Deadline,
    Phase,
    QueuePlace,
    SessionMachine,
)
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, Samples, pcm16_bytes
from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.entries import ChunkIn, PrepareIn, StopIn
from antiphon.shared_schemas.errors import ErrorCode

_GAP_S = 1.0
"""Sound that is later than this is missing; networks delay it less."""
_MUTED_GAP_S = 0.3
_ACCEPTED_S = 2.0
_FILLED_S = 30.0
"""After a client's last message. A client that has nothing to say does not keep its slot for ever."""


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound of one message, in the session's format."""

    data: bytes = field(repr=False)


class SoundRefusals:
    """Whether to report sound that is refused. Once is enough, until two seconds of it have been accepted."""

    def __init__(self) -> None:
        self._left_s = 0.0
        self._last_s = 0.0

    def accept(self, seconds: float) -> None:
        """`is_new` follows if it is refused after all."""
        self._left_s -= self._last_s
        self._last_s = seconds

    def is_new(self, fault: Fault) -> bool:
        """Whether the client has to learn this fault of its sound."""
        if fault.message.code != ErrorCode.INPUT_BACKPRESSURE:
            return True
        is_first = self._left_s <= 0
        self._left_s, self._last_s = _ACCEPTED_S, 0.0
        return is_first


def stream_phase_text(start: str) -> Mapping[Phase, str]:
    """`start`: the message that begins a session."""
    return {
        Phase.QUEUED: f"waiting for a worker and for {start}",
        Phase.QUEUED_PREPARED: "waiting for a worker",
        Phase.ASSIGNED: f"waiting for {start}",
        Phase.PREPARING: "starting",
        Phase.ACTIVE: "active",
        Phase.STOPPING: "closing",
        Phase.OVER: "closed",
    }


@dataclass(slots=True)
class _Times:
    """Of the loop's clock. `audio`: of the last sound or silence; `message`: of the client's last message."""

    audio: float = 0.0
    message: float = 0.0


class ChunkBuffer:
    """Cuts the sound of one session into the chunks that an engine wants, and fills its gaps with silence.

    An engine works when a chunk arrives: a client that mutes its microphone by sending nothing would also
    stop the answer. `clock`: seconds, such as the time of the event loop.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.muted = False
        self.chunk_ms = USUAL_CHUNK_MS
        self._clock = clock
        self._decoder = FormatDecoder(AudioFormat.PCM_24K)
        self._waiting: list[Samples] = []
        self._times = _Times()

    def begin(self, audio_format: AudioFormat, chunk_ms: int) -> None:
        """The client may send sound of this format from now on."""
        self._decoder = FormatDecoder(audio_format)
        self.chunk_ms = chunk_ms
        self._times = _Times(self._clock(), self._clock())

    def add(self, data: bytes) -> list[ChunkIn]:
        """The chunks that are complete now. Raises ValueError on a partial sample."""
        samples = self._decoder.decode(data)
        if self.muted:
            samples = np.zeros_like(samples)
        self._times = _Times(self._clock(), self._clock())
        self._waiting.append(samples)
        return self._complete()

    def touch(self) -> None:
        """The client has sent something else than sound."""
        self._times.message = self._clock()

    @property
    def next_check(self) -> float:
        """When `fill` has to be called."""
        chunk_s = self.chunk_ms / 1000
        return max(self._times.audio + self._gap_s, self._clock() + chunk_s / 2)

    def fill(self) -> list[ChunkIn]:
        """A chunk of silence, if the client sends no sound."""
        now = self._clock()
        missing = now - self._times.audio >= self._gap_s
        if not missing or now - self._times.message >= _FILLED_S:
            return []
        self._times.audio = now - self._gap_s + self.chunk_ms / 1000
        held = sum(map(len, self._waiting))
        self._waiting.append(np.zeros(self._chunk_samples - held, dtype=np.float32))
        return self._complete()

    @property
    def _gap_s(self) -> float:
        return max(_MUTED_GAP_S if self.muted else _GAP_S, 2 * self.chunk_ms / 1000)

    @property
    def _chunk_samples(self) -> int:
        return self.chunk_ms * INPUT_RATE // 1000

    def _complete(self) -> list[ChunkIn]:
        held, size = sum(map(len, self._waiting)), self._chunk_samples
        if held < size:
            return []
        sound = np.concatenate(self._waiting)
        whole = held - held % size
        self._waiting = [sound[whole:]] if whole < held else []
        return [
            ChunkIn(audio=pcm16_bytes(part), pcm=PcmFormat.S16)
            for part in np.split(sound[:whole], whole // size)
        ]


class SoundStreamMachine(SessionMachine[Command]):
    """Pieces of sound become chunks of the engine's length, and a stream that stalls becomes silence.

    Places in the queue are not reported: these protocols have no message for them. `clock`: seconds, such
    as the time of the event loop.
    """

    LEADS_TO: ClassVar = {PrepareIn: Phase.PREPARING, StopIn: Phase.STOPPING}
    PHASE_TEXT: ClassVar = stream_phase_text("start")

    def __init__(self, clock: Callable[[], float], audio_format: AudioFormat) -> None:
        super().__init__()
        self._clock = clock
        self._buffer = ChunkBuffer(clock)
        self._encoder = FormatEncoder(audio_format)

    def _add_sound(self, data: bytes) -> list[Action]:
        return [action for chunk in self._buffer.add(data) for action in self._forward(chunk)]

    def placed(self, place: QueuePlace) -> Actions:  # noqa: ARG002
        return []

    def worker_replaced(self, ticket_id: str) -> Actions:  # noqa: ARG002
        return []

    def _grant_messages(self) -> list[Action]:
        return []

    def deadlines(self) -> Iterator[Deadline]:
        """For ever: a stream may stall at any time."""
        while True:
            yield Deadline(self._next_check(), self._check)

    def _next_check(self) -> float:
        active = self.phase is Phase.ACTIVE
        return self._buffer.next_check if active else self._clock() + 1.0

    def _check(self) -> Actions:
        if self.phase is not Phase.ACTIVE:
            return []
        return [action for chunk in self._buffer.fill() for action in self._forward(chunk)]
