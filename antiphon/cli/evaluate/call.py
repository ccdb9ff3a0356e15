"""One call in real time, with both tracks. The user's side is a script, which hears what the model says."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from antiphon.cli.conversation.conversation import in_background
from antiphon.cli.conversation.latency import SendLog, UnitLatency
from antiphon.cli.evaluate.tracks import Microphone, Playback, Span, mixed
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ServerError, SessionOver
from antiphon.client.half_duplex import Event, HalfDuplexSession, connect_half_duplex
from antiphon.client.options import ClientOptions
from antiphon.client.results import Piece
from antiphon.client.session import prepared_within
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.messages.half_duplex import Generating, Interrupted, TurnDone

POLL_S = 0.02
NO_WORKER_S = 20.0
_HALF_DUPLEX_CHUNK_S = 0.2
_QUIET_S = 1.0


@dataclass(slots=True)
class Punctuality:
    """How many chunks were sent late, and how many results came later than the next chunk."""

    sent: int = 0
    sent_late: int = 0
    results: int = 0
    results_late: int = 0

    def add(self, other: "Punctuality") -> None:
        self.sent += other.sent
        self.sent_late += other.sent_late
        self.results += other.results
        self.results_late += other.results_late


class ConnectedCall(ABC):
    """What the two kinds of calls share. Times are seconds since the microphone was opened."""

    def __init__(self, chunk_s: float) -> None:
        self.chunk_s = chunk_s
        self.playback = Playback()
        self.punctuality = Punctuality()
        self.simulated = False
        self.over = False
        self.user_spoke = False
        self.errors: list[str] = []
        self._speech, self._noise = Microphone(), Microphone()
        self._clock = asyncio.get_running_loop().time
        self._start = self._clock()

    @property
    def now(self) -> float:
        return self._clock() - self._start

    def say(self, samples: Samples, at: float) -> Span:
        """Say this at a time that has not passed; returns when it is said."""
        return self._speech.add(samples, at)

    def make_noise(self, samples: Samples) -> None:
        """From now on, until `hush`."""
        self._noise.add(samples, self.now + POLL_S)

    def hush(self) -> None:
        self._noise.hush(self.now + POLL_S)

    def place(self, earliest: float, phase: float) -> float:
        """The first time from `earliest` on at this phase (0 to 1) of the grid of chunks."""
        chunks = (earliest - phase * self.chunk_s) / self.chunk_s
        return (int(chunks) + 1 + phase) * self.chunk_s

    def hear(
        self, audio: Samples, text: str, turn: int | None, *, cut: bool, ends: bool
    ) -> float | None:
        """Play a result; returns how much of an answer was played that is dropped, in seconds.

        While the model listens, `turn` is None. `cut`: the server says that the answer before was cut.
        """
        played_s = None
        if turn is None or cut:
            played_s = self.playback.drop(self.now, open_turns_only=not cut)
        if turn is not None:
            self.playback.add(audio, text, turn, self.now)
            if ends:
                self.playback.end_turn(turn)
        return played_s

    async def until(self, at: float) -> None:
        await asyncio.sleep(at - self.now)

    async def first_sound(self, after: float, within_s: float) -> float | None:
        """When the model first sounds after this time; None if that takes longer than `within_s`."""
        while (begin := self.playback.sound_since(after, self.now)) is None:
            if self.now > after + within_s:
                return None
            await asyncio.sleep(POLL_S)
        return begin

    async def quiet(self, within_s: float, quiet_s: float = _QUIET_S) -> bool:
        """Wait until the model has been silent for `quiet_s`; False if it does not fall silent."""
        limit = self.now + within_s
        while self.now < self.playback.ends_at + quiet_s:
            if self.now > limit:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def user_track(self, begin: float, end: float) -> Samples:
        return mixed([self._speech.track(begin, end), self._noise.track(begin, end)])

    async def talk(self, sender: Callable[[Samples], Awaitable[None]]) -> None:
        """Send the microphone in real time, until cancelled or until the session is over."""
        self._start = self._clock()
        with suppress(SessionOver):
            for number in itertools.count(1):
                await self.until(number * self.chunk_s)
                self.punctuality.sent += 1
                self.punctuality.sent_late += self.now > (number + 0.5) * self.chunk_s
                begin, end = (number - 1) * self.chunk_s, number * self.chunk_s
                await sender(self.user_track(begin, end))
        self.over = True

    async def listen(self) -> None:
        """Take what the server sends, until the session is over."""
        while not self.over:
            try:
                await self._take_all()
                self.over = True
            except ServerError as error:
                self.errors.append(str(error))
            except SessionOver as error:
                self.errors.append(str(error))
                self.over = True

    @abstractmethod
    async def _take_all(self) -> None:
        """Until the session ends. Raises ServerError for an error that does not end it, and SessionOver."""


class DuplexCall(ConnectedCall):
    """A call over `/ws/duplex`. A listen result within an answer drops what was not played."""

    def __init__(self, session: DuplexSession) -> None:
        super().__init__(session.chunk_s)
        self._session = session
        self._log = SendLog()

    async def send(self, chunk: Samples) -> None:
        self._log.add(len(chunk) * 1000 / INPUT_RATE, await self._session.send_audio(chunk))

    async def _take_all(self) -> None:
        async for unit in self._session.results():
            await self._take(unit)

    async def _take(self, unit: Unit) -> None:
        latency = UnitLatency.of(unit, self._log)
        self.punctuality.results += 1
        self.punctuality.results_late += latency is None or latency.total > self.chunk_s * 1000
        self.simulated |= bool(unit.message.simulated)
        played_s = self.hear(
            unit.audio, unit.text, unit.turn, cut=unit.interrupted, ends=unit.end_of_turn
        )
        if played_s is not None:
            with suppress(SessionOver):
                await self._session.playback_ack(played_s * 1000)


class HalfDuplexCall(ConnectedCall):
    """A call over `/ws/half_duplex`, whose client sends its microphone while it plays, too."""

    def __init__(self, session: HalfDuplexSession) -> None:
        super().__init__(_HALF_DUPLEX_CHUNK_S)
        self._session = session
        self._turn = 0

    async def send(self, chunk: Samples) -> None:
        await self._session.send_audio(chunk)

    async def _take_all(self) -> None:
        async for event in self._session.events():
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Generating):
            self._turn += 1
        elif isinstance(event, Piece):
            self.playback.add(event.audio, event.text, self._turn, self.now)
        elif isinstance(event, TurnDone):
            self.playback.end_turn(self._turn)
        elif isinstance(event, Interrupted):
            self.playback.drop(self.now)


@asynccontextmanager
async def duplex_call(
    url: str, how: ClientOptions, chunk_ms: int | None
) -> AsyncIterator[DuplexCall]:
    """A call that runs. Raises ClientError."""
    settings = {"temperature": 0.0, "record": False}
    if chunk_ms is not None:
        settings["chunk_ms"] = chunk_ms
    async with connect_duplex(url, **how) as session:
        await session.wait_for_turn(no_worker_s=NO_WORKER_S)
        async with prepared_within(NO_WORKER_S):
            await session.prepare(config=settings)
        call = DuplexCall(session)
        async with in_background(call.talk(call.send)), in_background(call.listen()):
            yield call


@asynccontextmanager
async def half_duplex_call(url: str, how: ClientOptions) -> AsyncIterator[HalfDuplexCall]:
    """A call that runs. Raises ClientError."""
    settings = {"generation": {"temperature": 0.0}, "record": False}
    async with connect_half_duplex(url, **how) as session:
        await session.wait_for_turn(no_worker_s=NO_WORKER_S)
        async with prepared_within(NO_WORKER_S):
            await session.prepare(config=settings)
        call = HalfDuplexCall(session)
        async with in_background(call.talk(call.send)), in_background(call.listen()):
            yield call
