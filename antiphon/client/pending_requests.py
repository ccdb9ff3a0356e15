"""Requests of a session without their answer yet: the next message of a kind, or an error about them."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from antiphon.client.errors import ClientError, ServerError
from antiphon.shared_schemas.wire import ServerMessage

Reply = TypeVar("Reply", bound=ServerMessage)


class _Request:
    """A message that the server answers, and its answer."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message = message
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class PendingRequests:
    """By the kind of their answer, one at a time."""

    def __init__(self) -> None:
        self._pending: dict[type[ServerMessage], _Request] = {}

    async def ask(
        self,
        message: Mapping[str, Any],
        kind: type[Reply],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        done: Callable[[], None],
    ) -> Reply:
        """The next message of this kind; an error about the request that arrives first is raised.

        The same request twice at a time is sent once, and others for the same kind of message in turn. `done`
        is called after each that was sent.
        """
        while (before := self._pending.get(kind)) is not None:
            await asyncio.wait([before.answer])
            if before.message == message and not before.answer.cancelled():
                answered: Reply = before.answer.result()
                return answered
        request = self._pending[kind] = _Request(message)
        try:
            await send(message)
            reply: Reply = await request.answer
            return reply
        finally:
            done()
            self._pending.pop(kind, None)
            request.answer.cancel()

    def settle(self, message: ServerMessage) -> None:
        """The message may be the answer to one of them."""
        if (request := self._pending.get(type(message))) is not None:
            settle(request.answer, message)

    def fail(self, error: ServerError, sent_types: Collection[str]) -> bool:
        """False if the error is about none of them. Its text begins with the type of a message, if any.

        `sent_types`: of all messages that the session has sent.
        """
        asked = [one for one in self._pending.values() if not one.answer.done()]
        if about := re.match(r"[\w.]+(?=: )", str(error)):
            named = [one for one in asked if one.message.get("type") == about[0]]
            asked = named if named or about[0] in sent_types else asked
        for request in asked:
            fail(request.answer, error)
        return bool(asked)

    def finish(self, error: ClientError) -> None:
        """No more messages arrive."""
        for request in self._pending.values():
            fail(request.answer, error)


def settle(waiting: asyncio.Future[Any], message: ServerMessage) -> None:
    if not waiting.done():
        waiting.set_result(message)


def fail(waiting: asyncio.Future[Any], error: ClientError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # marks it as retrieved: there may be no reader
