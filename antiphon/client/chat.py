"""One question with its history over `/ws/chat`, answered piece by piece.

history = [Message(Role.USER, (TextPart("What is this?"), ImagePart(jpeg)))]
async with ask("ws://127.0.0.1:8006", history) as answer:
    async for piece in answer.pieces():
        print(piece.text, end="")
    print(answer.done.generated_tokens)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Unpack, assert_never

from antiphon.client.inbox import Protocol, plain_error
from antiphon.client.link import Connecting, Link
from antiphon.client.opening import open_link
from antiphon.client.parsing import Parser
from antiphon.client.session import Session, conversing
from antiphon.client.sounds import Piece
from antiphon.shared_schemas.chat_messages import (
    ChatChunk,
    ChatGeneration,
    ChatTts,
    PrefillDone,
    PrefillProgress,
    UnstreamedChatDone,
)
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.media import Raw
from antiphon.shared_schemas.wire import Error, Queued, QueueDone, QueueUpdate, ServerMessage

__all__ = ["Answer", "Piece", "ask"]

Heard = Piece | PrefillProgress | PrefillDone | UnstreamedChatDone

PARSER: Parser[ServerMessage] = Parser(
    *(
        Queued,
        QueueUpdate,
        QueueDone,
        PrefillProgress,
        PrefillDone,
        ChatChunk,
        UnstreamedChatDone,
        Error,
    )
)


class Answer(Session[Queued, Heard]):
    """An answer as it comes. Made by `ask`; any call may raise ServerError or SessionOver.

    `input_tokens` is known once the request has been read, `done` once the answer is complete.
    """

    def __init__(self, link: Link, on_progress: Callable[[float], None] | None) -> None:
        super().__init__(link, _PROTOCOL)
        self.input_tokens: int | None = None
        self.done: UnstreamedChatDone | None = None
        self._on_progress = on_progress

    async def pieces(self) -> AsyncIterator[Piece]:
        """The answer, piece by piece; none where it was asked for in one piece (see `done`)."""
        async for heard in self._inbox.items():
            match heard:
                case Piece():
                    yield heard
                case PrefillProgress(done=done):
                    if self._on_progress is not None:
                        self._on_progress(done)
                case PrefillDone(input_tokens=input_tokens):
                    self.input_tokens = input_tokens
                case UnstreamedChatDone():
                    self.done = heard

    async def whole(self) -> UnstreamedChatDone:
        """Hear the answer out."""
        async for _ in self.pieces():
            pass
        assert self.done is not None, "an answer without its end raises"
        return self.done

    async def stop(self) -> None:
        """Want no more of it; `done` comes with what was said until then."""
        await self._send({"type": "stop"})

    async def send_request(self, request: dict[str, Any]) -> None:
        """The one thing that is asked; `ask` does this."""
        await self._send(request)

    async def _goodbye(self) -> None:
        """Closing the connection is all that an unfinished answer needs, unless it is waited for."""
        if self._link.resumes:
            await self.stop()


@asynccontextmanager
async def ask(
    url: str,
    history: Iterable[ConversationMessage],
    *,
    streaming: bool = True,
    generation: ChatGeneration | None = None,
    tts: ChatTts | None = None,
    on_progress: Callable[[float], None] | None = None,
    options: dict[str, Any] | None = None,
    **how: Unpack[Connecting],
) -> AsyncIterator[Answer]:
    """Ask an edge such as `ws://127.0.0.1:8006`; leaving the block gives up what is left of the answer.

    `on_progress` hears, while a long request is read, how much of it (0 to 1) has been; `options` are
    further fields of the request, such as `omni_mode`. Raises CannotConnect.
    """
    request: dict[str, Any] = {
        **(options or {}),
        "messages": [_message(message) for message in history],
        "streaming": streaming,
    }
    if generation is not None:
        request["generation"] = generation.model_dump()
    if tts is not None:
        request["tts"] = tts.model_dump(exclude_none=True)
    link = await open_link(url, "/ws/chat", how, progress="1" if on_progress else None)
    async with conversing(Answer(link, on_progress)) as answer:
        await answer.send_request(request)
        yield answer


def _message(message: ConversationMessage) -> dict[str, Any]:
    return {"role": str(message.role), "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart(pcm, form):
            return {"type": "audio", "data": Raw(pcm, form)}
        case ImagePart(data):
            return {"type": "image", "data": data}
        case VideoPart(data, stack_frames):
            return {"type": "video", "data": data, "stack_frames": stack_frames}
        case _:
            assert_never(part)


def _heard(message: ServerMessage) -> Heard | None:
    if isinstance(message, ChatChunk):
        return Piece.of(message)
    return (
        message if isinstance(message, PrefillProgress | PrefillDone | UnstreamedChatDone) else None
    )


def _ending(message: ServerMessage) -> str | None:
    return message.type if isinstance(message, UnstreamedChatDone) else None


_PROTOCOL: Protocol[Queued, Heard] = Protocol(
    PARSER, (Queued,), (QueueDone, PrefillProgress, PrefillDone), _heard, _ending, plain_error
)
