"""The interface of language models, in this process or on a server, and of one streamed reply."""

import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.local.chinese.script import PAUSES, STOPS, said_in
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig
from antiphon.shared_schemas.content import ToolCall
from antiphon.shared_schemas.tools import are_arguments

_NO_CHARACTER = "\ufffd"
"""The replacement for invalid UTF-8, which a small model sometimes generates."""


class ModelAway(EngineError):
    """The language model gives no answer, or only a part. The text is a sentence for the user.

    `reason` is for operators. It contains no key and nothing of the conversation.
    """

    def __init__(self, sentence: str, reason: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class RequestRefused(ModelAway):
    """The server does not answer this request. It may answer another one."""


class BrokenCall(ModelAway):
    """The answer is only a call of a tool, which cannot be read."""


@dataclass(slots=True)
class _Call:
    """`more`: what a server adds to the fields of OpenAI's API."""

    id: str
    name: str = ""
    arguments: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return bool(self.name) and are_arguments(self.arguments or "{}")

    def wire(self) -> dict[str, Any]:
        """For the server. Broken arguments are empty in it, because servers read them."""
        arguments = self.arguments if self.arguments and self.is_whole else "{}"
        return ToolCall(self.id, self.name or "unknown", arguments).wire() | self.more


class Generation(ABC):
    """One streamed reply: iterate for its text, about one token each.

    Leaving the iteration early stops the model. Afterwards `complete` is True if the model ended the
    reply, and `context_tokens` is the length of the context.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._calls: list[_Call] = []
        self._places: dict[Any, int] = {}
        self._thoughts_for_server: dict[str, Any] = {}
        self.thought = False
        """Thoughts have come, which are no text of the reply."""
        self.complete = False
        self.context_tokens: int | None = None
        self.written_tokens = 0
        """All tokens so far, also those of calls."""

    @abstractmethod
    def __iter__(self) -> Generator[str, None, None]:  # noqa: PYI058  # its reader closes it
        """Raises ModelAway if the model does not answer."""

    @abstractmethod
    def cancel(self) -> None:
        """End the iteration now, even while the model reads. Safe to call from any thread."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of a complete reply, without broken ones."""
        return tuple(
            ToolCall(call.id, call.name, call.arguments or "{}")
            for call in self._calls
            if call.is_whole
        )

    @property
    def broken_calls(self) -> tuple[str, ...]:
        """The ids of the calls without a name, or with arguments that are no JSON object.

        The model wrote them so, or the limit of tokens cut them off.
        """
        return tuple(call.id for call in self._calls if not call.is_whole)

    def message_of_calls(self, said: str) -> LlmMessage:
        """The reply with the text `said` and all calls, as a message for the next request.

        Some servers refuse that without what they added to the calls, or without the thoughts.
        """
        calls = [call.wire() for call in self._calls]
        message = {"role": "assistant", "content": said, "tool_calls": calls}
        return message | self._thoughts_for_server

    def _read_choice(self, choice: dict[str, Any]) -> str:
        """The text of a choice in the form of OpenAI's API. Its `delta` continues the reply."""
        self.complete = self.complete or choice.get("finish_reason") in _COMPLETE
        delta = choice.get("delta") or choice.get("message") or {}
        for part in delta.get("tool_calls") or ():
            self._add_to_call(part)
        content = delta.get("content")
        self._read_thoughts(delta, content)
        text = _text_of(content) + (delta.get("refusal") or "")
        return text.replace(_NO_CHARACTER, "")

    def _read_thoughts(self, delta: dict[str, Any], content: object) -> None:
        parts = content if isinstance(content, list) else ()
        self.thought = (
            self.thought
            or any(delta.get(name) for name in _THOUGHTS)
            or any(part.get("type") in _THOUGHTS for part in parts)
        )
        for name in _THOUGHTS_FOR_SERVER:
            if isinstance(more := delta.get(name), str | list):
                before = self._thoughts_for_server.get(name, type(more)())
                self._thoughts_for_server[name] = before + more

    def _add_to_call(self, part: dict[str, Any]) -> None:
        """The id and the name come with the first part of a call, the arguments in many.

        Some servers give all calls the same index, or none, and send the name with each part.
        """
        function, identity, index = part.get("function") or {}, part.get("id"), part.get("index", 0)
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        place = self._places.get(index)
        if place is None or self._is_another(self._calls[place], identity, name, arguments):
            place = self._places[index] = len(self._calls)
            self._calls.append(_Call(identity or f"call_{uuid.uuid4().hex[:24]}"))
        call = self._calls[place]
        call.name += name if name != call.name else ""
        call.arguments += (
            arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        )
        call.more |= {name: value for name, value in part.items() if name not in _CALL_FIELDS}

    def _is_another(self, call: _Call, identity: object, name: str, arguments: object) -> bool:
        if identity:
            return call.id != identity
        return bool(name and arguments and call.arguments) and call.is_whole


def _text_of(content: object) -> str:
    """The text of a message, which some servers send in parts. Raises TypeError, AttributeError."""
    if isinstance(content, list):
        return "".join(part.get("text") or part.get("refusal") or "" for part in content)
    if not isinstance(content, str | None):
        raise TypeError("neither text nor parts")
    return content or ""


_CALL_FIELDS = ("index", "id", "type", "function")
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""The names of fields with thoughts, and of the types of such parts."""

_THOUGHTS_FOR_SERVER = ("reasoning_content", "reasoning_details")
"""DeepSeek and OpenRouter want these back. Others are left out, because some servers refuse them."""

_COMPLETE = ("stop", "tool_calls", "function_call")


class LanguageModel(ABC):
    """Safe to use from any thread."""

    knows_tools = True
    """The model reads the tools of a request."""
    sees = False
    """The model takes `image_url` parts."""
    resumes_text = True
    """If the last message is the assistant's, the reply continues it exactly."""
    trouble = ""
    """Why the model does not answer now, for operators; empty if it does."""

    @property
    def refuses_rules(self) -> bool:
        """The model's server takes no tools, although some model behind it may."""
        return False

    @abstractmethod
    def stream(
        self,
        messages: Sequence[LlmMessage],
        slot: int,
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
        *,
        must_call: bool = False,
    ) -> Generation:
        """Start a reply. If the last message is the assistant's, the reply continues it.

        With `must_call` it is a call of a tool.
        `counter` counts its tokens, and those of `messages` that the slot has not read before.
        """

    @abstractmethod
    def prefill(
        self,
        messages: Sequence[LlmMessage],
        slot: int,
        *,
        reuse_cache: bool = True,
        counter: TokenCounter | None = None,
        tools: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Read `messages` ahead, if the model can; returns their length in tokens, or an estimate.

        Raises ContextFull if the messages do not fit.
        """

    def end_probability(
        self,
        messages: Sequence[LlmMessage],  # noqa: ARG002
        slot: int,  # noqa: ARG002
        counter: TokenCounter | None = None,  # noqa: ARG002
        tools: Sequence[dict[str, Any]] = (),  # noqa: ARG002
    ) -> float | None:
        """How probable it is that the text of the last message, the user's, ends there.

        None if the model cannot tell at the price of reading it.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Free the model."""


def spoken_pieces(generation: Iterable[str], language: str = "en") -> Generator[str, None, None]:
    """The reply's text. If the model is away, a sentence that says so is its end."""
    try:
        yield from generation
    except ModelAway as away:
        yield from word_pieces(f"\n{said_in(language, str(away))}\n")


def word_pieces(text: str) -> list[str]:
    """`text` in pieces of one word each, or in Chinese of one phrase each."""
    return re.findall(rf"\s*{_PIECE}\s*$|\s*{_PIECE}", text)


_PIECE = rf"(?:[^\s{STOPS}{PAUSES}]*[{STOPS}{PAUSES}]+|[^\s{STOPS}{PAUSES}]+)"
