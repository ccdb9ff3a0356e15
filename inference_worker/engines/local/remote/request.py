"""One chat request: how it gets shorter, and does without what the model's template does not take."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from antiphon.inference_worker.engines.common.exchange import MAX_BODY, ModelServer
from antiphon.inference_worker.engines.local.dialogue import LlmMessage, joined_contents
from antiphon.inference_worker.engines.local.remote.generation import estimated_tokens
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS

_SHORTER = 0.75
"""Of the estimated tokens that a server has refused."""

_ABOUT_ROLES = re.compile(
    r"system.{0,3}(?:role|message|prompt|instruction)"  # Gemma's template in vLLM and llama.cpp
    r"|(?:role|support)[^.]{0,40}\bsystem\b"  # OpenAI's o1-mini
    r"|developer instruction"  # Gemma in Google's API
    r"|roles must alternate|user and assistant roles",  # Mistral's templates
    re.IGNORECASE,
)
_TOO_LONG_ANSWER = re.compile(
    r"max_(?:completion_)?tokens.{0,80}(?:too large|less than or equal|at most|valid range|<=)",
    re.IGNORECASE,
)
_ABOUT_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_ABOUT_PICTURES = re.compile(r"image|picture|vision|multi-?modal", re.IGNORECASE)


@dataclass(slots=True)
class LlmRequest:
    """`body` in the form of OpenAI's API.

    If it `is_spoken`, older messages may be left out, but for the last `tail` ones.
    """

    address: ModelServer
    body: dict[str, Any]
    is_spoken: bool
    tail: int
    room: float = math.inf
    """Estimated tokens of messages, if it was refused with more."""
    waited: bool = False
    answered: bool = False
    """The server has answered or refused it."""
    tried: set[str] = field(default_factory=set)
    """The names of what was refused in this request."""

    def make_room(self) -> bool:
        """After the server refused its length. False if it cannot get shorter.

        Without `max_tokens`, the answer gets what is left of the context.
        """
        if self.is_spoken:
            messages = self.body["messages"]
            room = _SHORTER * estimated_tokens(messages)
            if len(fewer := latest(messages, room, self.tail)) < len(messages):
                self.body["messages"], self.room = fewer, room
                return True
        return self.body.pop("max_tokens", None) is not None

    def refused_field(self, text: str) -> str | None:
        """The field of a client's request that the refusal `text` is about."""
        tools = self.body.get("tools")
        if self.is_spoken:
            return None
        if tools and tools != list(RULE_TOOLS) and _ABOUT_TOOLS.search(text):
            return "tools"
        shown = any(isinstance(message["content"], list) for message in self.body["messages"])
        return "messages" if shown and _ABOUT_PICTURES.search(text) else None


def tail_of(messages: Sequence[LlmMessage]) -> int:
    """How many messages the last question, and what follows it, are."""
    users = (place for place, message in enumerate(messages) if message["role"] == "user")
    return len(messages) - max(users, default=0)


def latest(messages: Sequence[LlmMessage], room: float, tail: int) -> list[LlmMessage]:
    """The system messages and the newest others, which have `room` tokens together by estimate.

    The last `tail` messages stay in any case. Others go in steps of half the room, so that most requests
    of a session begin like the one before, and the server reads only what is new.
    """
    excess = estimated_tokens(messages) - room
    if excess <= 0:
        return list(messages)
    too_many = math.ceil(excess / (room / 2)) * (room / 2)
    kept: list[LlmMessage] = []
    dropped, begins = 0.0, False
    for place, message in enumerate(messages):
        begins = begins or (dropped >= too_many and message["role"] == "user")
        if message["role"] == "system" or begins or place >= len(messages) - tail:
            kept.append(message)
        else:
            dropped += estimated_tokens([message])
    return kept


def without_system(messages: Sequence[LlmMessage]) -> list[LlmMessage]:
    """The text of the system is the user's, and neighbours of one role are joined."""
    joined: list[LlmMessage] = []
    for message in messages:
        said = {**message, "role": "user"} if message["role"] == "system" else message
        last = joined[-1] if joined else None
        if last is None or said["role"] != last["role"] or {*said, *last} != {"role", "content"}:
            joined.append(said)
        else:
            both = joined_contents(last["content"], said["content"], _as_paragraph)
            joined[-1] = {**last, "content": both}
    return joined


def _as_paragraph(_: str, text: str) -> str:
    return f"\n\n{text}"


def refusal_in(response: HTTPResponse) -> bytes:
    """The body of an answer with an HTTP error, or the error with which a stream begins; else empty.

    The stream can be read as before. Raises OSError, HTTPException.
    """
    if response.status != 200:
        return response.read(MAX_BODY)
    begin = response.peek()
    return begin if b'"error"' in begin and b'"choices"' not in begin else b""


def is_about_roles(text: str) -> bool:
    """Whether a refusal is about a system message, or two messages of one role."""
    return bool(_ABOUT_ROLES.search(text))


def is_about_length_of_answer(text: str) -> bool:
    """Whether the server takes no `max_tokens` as large as this one."""
    return bool(_TOO_LONG_ANSWER.search(text))
