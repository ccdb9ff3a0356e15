"""Simulated users: each connects, waits for the others, and sends its requests at their due times."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from PIL import Image

from antiphon.cli.conversation.conversation import SpokenQuestion, in_background, units
from antiphon.cli.load.openai import ask_openai, keep_line, read_live, speak_live
from antiphon.cli.load.plan import LoadLog, LoadRequest, UserKind
from antiphon.client.chat import ask
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ServerError
from antiphon.client.half_duplex import HalfDuplexSession, Piece, connect_half_duplex
from antiphon.client.openai_link import OpenAiLink, connect_live, connect_openai_realtime
from antiphon.client.options import ClientOptions
from antiphon.client.session import prepared_within
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.messages.half_duplex import Generating, TurnDone

QUESTION = "What is the capital of Italy?"
_SIZE = (640, 480)
_PIECE_S = 0.5
_TURN_PATIENCE_S = 30.0
_LAST_ANSWER_S = 1.0
_NO_WORKER_S = 10.0
"""How long a service may be without a worker before its user fails."""
_PREPARE_S = 30.0
"""Of a session that a worker holds: many users prepare at once."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadInputs:
    """`chunks` of `chunk_ms`, used in a cycle; `questions` are whole recordings."""

    chunks: tuple[Samples, ...]
    questions: tuple[SpokenQuestion, ...]
    image: bytes
    chunk_ms: int

    @classmethod
    def of(
        cls, recordings: Sequence[Samples], speak_ratio: float, chunk_ms: int = USUAL_CHUNK_MS
    ) -> "LoadInputs":
        """Recordings are float32 mono at 16 kHz; `speak_ratio` is the share of chunks with speech."""
        size = chunk_ms * INPUT_RATE // 1000
        cut = (_with_silence(one, size, speak_ratio) for one in recordings)
        return cls(
            chunk_ms=chunk_ms,
            chunks=tuple(chain.from_iterable(cut)),
            questions=tuple(SpokenQuestion(one) for one in recordings),
            image=_jpeg(),
        )

    def chunk(self, user: int, n: int) -> Samples:
        """The `n`th chunk of a user; each user starts at a different second."""
        return self.chunks[(user * 1000 // self.chunk_ms + n) % len(self.chunks)]

    def has_frame(self, n: int) -> bool:
        """Whether the `n`th chunk has a picture: one a second."""
        return n * self.chunk_ms % 1000 < self.chunk_ms


def _with_silence(recording: Samples, size: int, speak_ratio: float) -> list[Samples]:
    """The recording in chunks of `size` samples, then silence."""
    spoken = max(1, -(-len(recording) // size))
    padded = np.pad(recording, (0, spoken * size - len(recording)))
    chunks = list(padded.reshape(spoken, size)) if speak_ratio > 0 else []
    silent = round(spoken * (1 - speak_ratio) / speak_ratio) if chunks else 1
    return chunks + [np.zeros(size, np.float32)] * silent


def _jpeg() -> bytes:
    """A JPEG of 640 by 480 pixels with about the size of a camera's."""
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (_SIZE[1] // 8, _SIZE[0] // 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(_SIZE, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()


@dataclass(frozen=True)
class SimulatedUser:
    """One user. It awaits `ready` once it has a turn; `ready` returns when the load starts.

    Without answers, a user waits until it is cancelled.
    """

    number: int
    kind: UserKind
    url: str
    how: ClientOptions
    inputs: LoadInputs
    log: LoadLog
    ready: Callable[[], Awaitable[None]]

    @property
    def requests(self) -> list[LoadRequest]:
        """Its planned requests; available after `ready`."""
        return self.log.users[self.number]

    async def run(self) -> None:
        """Raises ClientError if the server rejects the session or ends it early."""
        match self.kind:
            case UserKind.CHAT:
                await _chat(self)
            case UserKind.HALF_DUPLEX:
                await _take_turns(self)
            case UserKind.LIVE:
                await _converse_live(self)
            case UserKind.OPENAI:
                await _take_openai_turns(self)
            case _:
                await _converse(self)

    def question(self, n: int, request: LoadRequest) -> SpokenQuestion:
        """Its `n`th question. The answer of `request` is waited for from the end of the speech."""
        question = self.inputs.questions[(self.number + n) % len(self.inputs.questions)]
        request.answer_from = request.due_at + question.speech_end_s
        return question

    def note_failure(self, failure: object) -> None:
        """Count an error that did not end the session."""
        self.log.failures[f"{self.kind}: {failure}"] += 1


async def _converse(user: SimulatedUser) -> None:
    async with connect_duplex(user.url, video=user.kind is UserKind.OMNI, **user.how) as session:
        await session.wait_for_turn(no_worker_s=_NO_WORKER_S)
        async with prepared_within(_PREPARE_S):
            await session.prepare()
        await user.ready()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read_units(user, session))
            tasks.create_task(_speak(user, session))


async def _speak(user: SimulatedUser, session: DuplexSession) -> None:
    frames = (user.inputs.image,) if user.kind is UserKind.OMNI else ()
    for n, request in enumerate(user.requests):
        await request.wait_until_due()
        shown = frames if user.inputs.has_frame(n) else ()
        await session.send_audio(user.inputs.chunk(user.number, n), frames=shown)


async def _read_units(user: SimulatedUser, session: DuplexSession) -> None:
    """Read up to the last due result; results arrive in order."""
    async for unit in units(session, user.note_failure):
        _note_unit(user, unit)
        if user.requests[-1].answered_at is not None:
            return


def _note_unit(user: SimulatedUser, unit: Unit) -> None:
    """A result says how much audio it covers, so skipped chunks get no answer."""
    n = unit.message.current_time // user.inputs.chunk_ms - 1
    if 0 <= n < len(user.requests):
        user.requests[n].answered_at = unit.received_at
    user.log.simulated |= bool(unit.message.simulated)


async def _take_turns(user: SimulatedUser) -> None:
    async with connect_half_duplex(user.url, **user.how) as session:
        await session.wait_for_turn(no_worker_s=_NO_WORKER_S)
        async with prepared_within(_PREPARE_S):
            await session.prepare()
        await user.ready()
        await _ask_all(user, partial(_take_turn, user, session))


async def _converse_live(user: SimulatedUser) -> None:
    inputs, begins, answers = user.inputs, asyncio.Event(), dict[int, float]()
    async with (
        connect_live(user.url, user.how) as link,
        in_background(read_live(link, answers, inputs.chunk_ms)),
    ):
        waiting = asyncio.create_task(keep_line(link, inputs.chunk_ms, begins))
        try:
            await user.ready()
            begins.set()
            before = await waiting
        finally:
            waiting.cancel()
        for n, request in enumerate(user.requests):
            await request.wait_until_due()
            request.answer_from = request.due_at + inputs.chunk_ms / 1000
            await speak_live(link, inputs.chunk(user.number, n), request.due_at)
        await asyncio.sleep(_LAST_ANSWER_S)
    for n, request in enumerate(user.requests):
        request.answered_at = answers.get(n + before)
    user.log.users[user.number] = [one for one in user.requests if one.answered_at is not None]


async def _take_openai_turns(user: SimulatedUser) -> None:
    async with connect_openai_realtime(user.url, user.how) as link:
        await user.ready()
        await _ask_all(user, partial(_take_openai_turn, user, link))


async def _take_openai_turn(
    user: SimulatedUser, link: OpenAiLink, n: int, request: LoadRequest
) -> None:
    question = user.question(n, request)
    async with asyncio.timeout(question.speech_end_s + _TURN_PATIENCE_S):
        await ask_openai(link, question, request)


async def _chat(user: SimulatedUser) -> None:
    await user.ready()
    await _ask_all(user, partial(_ask, user))


async def _ask_all(
    user: SimulatedUser, ask_one: Callable[[int, LoadRequest], Awaitable[None]]
) -> None:
    """Ask at the due times and read each answer whole; counts questions without one."""
    for n, request in enumerate(user.requests):
        await request.wait_until_due()
        try:
            await ask_one(n, request)
        except ServerError as error:
            user.note_failure(error)
        except TimeoutError:
            user.note_failure(f"no answer within {_TURN_PATIENCE_S:g} s")


async def _take_turn(
    user: SimulatedUser, session: HalfDuplexSession, n: int, request: LoadRequest
) -> None:
    question = user.question(n, request)
    async with (
        in_background(question.speak_to(session.send_audio, _PIECE_S)) as speaking,
        asyncio.timeout(question.speech_end_s + _TURN_PATIENCE_S),
    ):
        async for event in session.events():
            match event:
                case Generating():
                    speaking.cancel()
                case Piece() if request.answered_at is None:
                    request.answered_at = event.received_at
                case TurnDone():
                    return


async def _ask(user: SimulatedUser, _n: int, request: LoadRequest) -> None:
    question = [ConversationMessage(Role.USER, (TextPart(QUESTION),))]
    async with ask(user.url, question, **user.how) as answer:
        async for piece in answer.pieces():
            if request.answered_at is None:
                request.answered_at = piece.received_at
