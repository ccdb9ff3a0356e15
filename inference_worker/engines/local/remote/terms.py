"""What a server takes of a request, learnt from what it has refused."""

import math
import re
import threading
from typing import Any

import structlog

from antiphon.inference_worker.engines.local.remote import faults
from antiphon.inference_worker.engines.local.remote.request import (
    LlmRequest,
    is_about_length_of_answer,
    is_about_roles,
    without_system,
)
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS

THOUGHT_TOKENS = 2000
"""For thoughts that cannot be turned off, in addition to those of the answer."""

_THOUGHT_ROOM = "room for thoughts"

_ROLES = "roles"
"""Among the fields that a server refuses: a system message, and two messages of one role in a row."""

_OPTIONAL = ("reasoning_effort", "stream_options", "temperature", "top_p")
"""Fields that a server may refuse. The request is then sent again without, as without the rules."""

_SLIP = re.compile(
    r"pars(?:e|ing)\b"  # Ollama, llama.cpp
    r"|tool_use_failed"  # Groq
    r"|malformed",
    re.IGNORECASE,
)
"""Of a server that takes tools, but not the call that the model has just written."""

log = structlog.get_logger()


class ServerTerms:
    """All requests to a server share them. Safe to use from any thread."""

    def __init__(self) -> None:
        self.refuses_rules = False
        self.room = math.inf
        """Estimated tokens of the longest messages that spoken sessions send."""
        self._refused: set[str] = set()
        self._lock = threading.Lock()

    def accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """`body` without what the server has refused before."""
        sent = {name: value for name, value in body.items() if name not in self._refused}
        if "max_tokens" in self._refused and "max_tokens" in body:
            sent["max_completion_tokens"] = body["max_tokens"]
        if _ROLES in self._refused:
            sent["messages"] = without_system(body["messages"])
        return sent

    def learn(self, request: LlmRequest, sent: dict[str, Any], status: int, said: bytes) -> bool:
        """Whether the server may take the request as it, or what is accepted, is changed now.

        A status of 200 is that of a stream that begins with an error.
        """
        text = said.decode(errors="replace")
        refuses = status in (400, 422)
        if faults.is_context_full(400 if status == 200 else status, said):
            has_room = {"reasoning_effort", "max_tokens"} <= request.body.keys()
            if has_room and _THOUGHT_ROOM not in request.tried:
                request.tried.add(_THOUGHT_ROOM)
                request.body["max_tokens"] -= THOUGHT_TOKENS
                return True
            return request.make_room()
        if refuses and "max_tokens" in request.body and is_about_length_of_answer(text):
            del request.body["max_tokens"]
            return True
        name: str | None = None
        if status in (200, 400, 422, 500) and is_about_roles(text) and _ROLES not in self._refused:
            name = _ROLES
        elif _is_about_rules(status, said, sent):
            self.refuses_rules = not _SLIP.search(text)
            del request.body["tools"]
            return True
        elif refuses:
            name = _refused_field(text, sent)
        if name is not None:
            request.tried.add(name)
            self._refused.add(name)
        return name is not None

    def forget(self, request: LlmRequest) -> None:
        """What was left out of a request that is refused without it, too, was not the reason."""
        self._refused -= request.tried

    def limit(self, room: float) -> None:
        """Spoken sessions send at most so many estimated tokens of messages from now on."""
        with self._lock:
            is_less, self.room = room < self.room, min(room, self.room)
        if is_less:
            log.warning("language_model_context_is_small", message_tokens=round(room))


def _refused_field(text: str, sent: dict[str, Any]) -> str | None:
    """The field without which a refused request is sent again.

    OpenAI's newer models take `max_completion_tokens` in place of `max_tokens`, and no temperature.
    A refusal that names no field can be about the newer ones, and of thoughts about `reasoning_effort`.
    """
    named = (name for name in ("max_tokens", *_OPTIONAL) if name in sent and name in text)
    newer = (name for name in ("reasoning_effort", "stream_options") if name in sent)
    return next(named, None) or next(newer, None)


def _is_about_rules(status: int, said: bytes, sent: dict[str, Any]) -> bool:
    """Whether the model, such as some of Ollama's, takes no tools, and the client sent none."""
    ours = sent.get("tools") == list(RULE_TOOLS)
    has_results = any(message["role"] == "tool" for message in sent["messages"])
    return ours and not has_results and 400 <= status <= 500 and b"tool" in said.lower()
