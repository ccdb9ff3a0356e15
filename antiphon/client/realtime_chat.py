"""Several chat requests on one connection, over version 2 of the realtime API.

async with connect_realtime_chat("ws://127.0.0.1:8006") as chat:
    async for piece in chat.ask("Who are you?"):
        print(piece.text, end="")
    print(chat.done.usage)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

from antiphon.client.chat import History, request_fields
from antiphon.client.link import ClientOptions, Link, open_link, with_options
from antiphon.client.realtime import PARSER_V2, RealtimePlace
from antiphon.client.results import Spoken
from antiphon.client.session import Session, run_session
from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts
from antiphon.shared_schemas.messages.realtime_v2 import (
    ResponseDone,
    SessionClosedV2,
    SessionCreatedV2,
)

__all__ = ["RealtimeChatClient", "connect_realtime_chat"]


class RealtimeChatClient(Session[RealtimePlace, Spoken | ResponseDone]):
    """One connection with a request at a time. Every error ends it: ServerError, then SessionOver.

    `done` is the end of the last answer: its text, `recording_session_id`, and `tool_calls` and `usage`, if
    there are any.
    """

    created: SessionCreatedV2

    def __init__(self, link: Link) -> None:
        super().__init__(link, PARSER_V2)
        self.done: ResponseDone | None = None

    async def ask(
        self,
        history: History,
        *,
        streaming: bool = True,
        generation: ChatGeneration | None = None,
        tts: ChatTts | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Spoken]:
        """The pieces of an answer, with text or audio; none with `streaming=False` (see `done`).

        The arguments are those of `antiphon.ask`. Read an answer to its end before the next request.
        """
        self.done = None
        asked = request_fields(history, streaming, generation, tts, tools, options)
        await self._send({"type": "input.append", "input": asked})
        async for item in self.events():
            if isinstance(item, ResponseDone):
                self.done = item
                return
            yield item

    async def whole(self, history: History, **request: Any) -> ResponseDone:
        """The end of the answer, which has the whole text and `audio` as bytes of float32 at 24 kHz.

        Takes the arguments of `ask` except `streaming`.
        """
        async for _ in self.ask(history, streaming=False, **request):
            pass
        assert self.done is not None, "an answer without its end raises"
        return self.done

    async def begin(self) -> SessionCreatedV2:
        await self.wait_for_turn()
        message = {"type": "session.init", "payload": {}}
        self.created = await self._request(message, SessionCreatedV2)
        return self.created

    async def stop(self, reason: str = "user_stop") -> SessionClosedV2:
        """Stop the answer and close the connection."""
        return await self._request({"type": "session.close", "reason": reason}, SessionClosedV2)


@with_options
@asynccontextmanager
async def connect_realtime_chat(
    url: str, **how: Unpack[ClientOptions]
) -> AsyncIterator[RealtimeChatClient]:
    """Connect to an edge such as `ws://127.0.0.1:8006`; leaving the block closes the connection.

    The edge holds a worker only while it answers. With `resume` a broken connection loses nothing of an
    answer; one that breaks between two answers ends with SessionOver: connect again.
    Raises CannotConnect, ServerError or SessionOver.
    """
    link = await open_link(url, "/v1/realtime", how, mode="chat", notices="1")
    async with run_session(RealtimeChatClient(link)) as chat:
        await chat.begin()
        yield chat
