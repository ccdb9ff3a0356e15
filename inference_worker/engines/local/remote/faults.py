"""Why a server of a language model does not answer, and what its operator can do."""

import re
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import orjson

from antiphon.inference_worker.engines.local.language_model import ModelAway, RequestRefused
from antiphon.inference_worker.engines.types import ContextFull, EngineError, TooManyRequests

UNREACHABLE = "I cannot reach my language model right now. Please try again."
CUT_OFF = "I lost the connection to my language model. Please ask again."
NO_ANSWER = "My language model gave no answer. Please try again."
FAULTS = (UNREACHABLE, CUT_OFF, NO_ANSWER)

_MAX_SHOWN = 200
_QUOTED = 16
_CONTEXT_FULL = re.compile(
    r"context_length_exceeded"  # OpenAI's code
    r"|exceed_context_size_error"  # llama.cpp's type
    r"|exceed(?:s|ed)? (?:the )?(?:available |maximum |model's )?context"  # Anthropic, llama-cpp-python
    r"|(?:maximum|max) (?:model |context |prompt )+len(?:gth)?"  # OpenAI, vLLM, xAI
    r"|context (?:length|window|size)[^.]{0,40}(?:exceed|too (?:long|small))"
    r"|context length of only|tokens to keep from the initial prompt"  # LM Studio
    r"|token count[^.]{0,40}exceeds"  # Google
    r"|longer than the model"  # SGLang
    r"|`inputs`[^.]{0,40}(?:must be <=|must have less)"  # TGI
    r"|reduce the length of the"  # Groq
    r"|too many tokens"  # Cohere
    r"|(?:prompt|input) (?:is )?too (?:long|large)",  # Ollama and others
    re.IGNORECASE,
)


def away(reason: str) -> ModelAway:
    return ModelAway(UNREACHABLE, reason)


class Overloaded(ModelAway, TooManyRequests):
    """The server answered with HTTP 429, and `said` this."""

    def __init__(self, said: str) -> None:
        super().__init__(
            UNREACHABLE, f"the server refuses more requests now (HTTP 429{_after(said)})"
        )


class NoToken(ModelAway):
    """The server at `place` did not begin an answer in time. It may read the model from its disk."""

    def __init__(self, place: str, timeout_s: float) -> None:
        super().__init__(UNREACHABLE, f"{place} gave no token within {timeout_s:g} s")


def of_exception(error: Exception, place: str) -> EngineError:
    """What `error` means to the operator. `place` is the server's address."""
    match error:
        case EngineError():
            return error
        case socket.gaierror():
            return away(f"the host of {place} is not known: {error.strerror}; correct --llm-url")
        case ConnectionRefusedError():
            return away(f"nothing listens at {place}; start the server or correct --llm-url")
        case ssl.SSLCertVerificationError():
            return away(f"the certificate of {place} is not trusted: {error.verify_message}")
        case ssl.SSLError():
            return away(f"{place} does not speak TLS ({error.reason}); http:// may be right")
        case TimeoutError():
            return away(f"{place} does not answer in time")
        case _:
            return away(f"{place} broke off: {type(error).__name__}: {_short(str(error))}")


def of_status(status: int, body: bytes, key: str, private: Iterable[str] = ()) -> EngineError:
    """The meaning of an answer with an HTTP error. Its message is left out if it quotes `private`."""
    said = message_of(body, [key, *private])
    if is_context_full(status, body):
        remedy = "shorten it, or give the model a larger context in its server"
        return ContextFull(f"the conversation does not fit into the model's context; {remedy}")
    if status in (401, 403):
        return away(f"{_about_key(key)} (HTTP {status}{_after(said)})")
    if status == 429:
        return Overloaded(said)
    if 300 <= status < 400:
        return away(f"the server sends requests elsewhere (HTTP {status}); correct --llm-url")
    if status >= 500:
        kind = RequestRefused if status == 500 else ModelAway
        return kind(UNREACHABLE, f"the server failed (HTTP {status}{_after(said)})")
    return RequestRefused(
        UNREACHABLE, f"the server refuses the request (HTTP {status}{_after(said)})"
    )


def is_context_full(status: int, body: bytes) -> bool:
    """Whether an answer with an HTTP error says that the request is too long for the model."""
    text = body.decode(errors="replace")
    return status in (400, 413, 422, 500) and bool(_CONTEXT_FULL.search(text))


def of_unknown_model(model: str, known: Iterable[str], said: str) -> ModelAway:
    """HTTP 404. `known` is empty if the server lists no models."""
    if names := list(known):
        shown = ", ".join(names[:20])
        if model not in names:
            return away(f"the server has no model {model!r}; --llm-model can be one of: {shown}")
        return away(f"the server does not answer for {model!r} (HTTP 404{_after(said)})")
    return away(
        f"the address or the model {model!r} is unknown (HTTP 404{_after(said)}); --llm-url "
        "usually ends in /v1"
    )


def message_of(body: bytes, private: Iterable[str]) -> str:
    """The message of an error in one of the usual forms, or plain text, unless it quotes `private`."""
    said = _message(body)
    return "" if any(_quotes(said, text) for text in private) else said


def _quotes(said: str, text: str) -> bool:
    """Whether both have _QUOTED characters in common, or `said` has all of a shorter text."""
    text = " ".join(text.split())
    run = min(_QUOTED, len(text))
    return bool(run) and any(said[at : at + run] in text for at in range(len(said) - run + 1))


def _message(body: bytes) -> str:
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode(errors="replace")
        return "" if "<" in text else _short(text)
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return _short(value) if isinstance(value, str) else ""


def _about_key(key: str) -> str:
    if key:
        return "the server refuses the key; correct the file --llm-key-file"
    return "the server wants a key; name a file with it: --llm-key-file"


def _after(said: str) -> str:
    return f": {said}" if said else ""


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_SHOWN else f"{words[:_MAX_SHOWN]}…"
