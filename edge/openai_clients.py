"""Whose connection it is: OpenAI's clients and those of the public demo use the same path.

And what OpenAI's clients can do about a route that is not served.
"""

import re
from collections.abc import Iterable, Mapping

from starlette.requests import HTTPConnection

from antiphon.shared_schemas.wire import OPENAI_PROTOCOL

DEMO_PATH = "/v1/realtime"
ALIASES = ("/openai/v1/realtime", "/realtime", "/openai/realtime")
"""Paths of OpenAI's clients only: their base URL has another end."""

_DEMO_QUERY = frozenset(
    {
        *("mode", "resume", "resume_token", "capabilities", "notices"),
        *("transcript", "playback_ack", "pcm"),
    }
)
_OPENAI_QUERY = frozenset({"model", "intent", "call_id"})
_OPENAI_AGENTS = ("OpenAI/", "AsyncOpenAI/", "Agents/")

CALLS = ("/v1/realtime/calls", "/openai/v1/realtime/calls")

OPENAI_KEY_PROTOCOL = "openai-insecure-api-key."
"""Prefix of the subprotocol in which OpenAI's clients in browsers send the key as it is."""


_ROUTES_ARE_IN = "docs/openai.md lists the routes"
_REMEDIES = {
    "/v1/responses": (
        "use /v1/chat/completions (OpenAI's Agents SDK: OpenAIChatCompletionsModel; Vercel's AI SDK: "
        "openai.chat(…))"
    ),
    "/v1/completions": "use /v1/chat/completions",
    "/v1/audio/translations": "use /v1/audio/transcriptions, which keeps the language",
    "/v1/realtime/sessions": "use /v1/realtime/client_secrets",
    "/v1/realtime/transcription_sessions": "use /v1/realtime/client_secrets",
}
"""For routes that OpenAI's SDKs, or programs that use them, ask for by default."""

_OTHER_BASE = re.compile(
    r"(?:/v1/v1|/openai)?/(?:chat/completions|completions|embeddings|models|responses|audio/\w+)$"
)
"""Paths that follow from a base URL without `/v1`, or with two of them."""


def unserved_route(path: str) -> str | None:
    """What a client of OpenAI's API can do about a path that has no route; None for other clients."""
    if _OTHER_BASE.match(path):
        return f"this server does not serve {path}; the base URL must end with /v1, once"
    bare = path.removeprefix("/openai")
    if not bare.startswith("/v1/"):
        return None
    remedies = (text for known, text in _REMEDIES.items() if f"{bare}/".startswith(f"{known}/"))
    return f"this server does not serve {path}; {next(remedies, _ROUTES_ARE_IN)}"


def is_openai_socket(connection: HTTPConnection) -> bool:
    """Whether this is the handshake of a WebSocket for OpenAI's Realtime API."""
    scope = connection.scope
    path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
    return (
        scope["type"] == "websocket"
        and path.rstrip("/") in (DEMO_PATH, *ALIASES)
        and is_openai_client(
            path, connection.query_params, connection.headers, scope.get("subprotocols", ())
        )
    )


def opens_realtime(connection: HTTPConnection) -> bool:
    """Whether a client begins a session of OpenAI's Realtime API, or ends its call."""
    scope = connection.scope
    if scope["type"] == "websocket":
        return is_openai_socket(connection)
    path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
    return any(path == calls or path.startswith(f"{calls}/") for calls in CALLS)


def is_openai_client(
    path: str, query: Iterable[str], headers: Mapping[str, str], subprotocols: Iterable[str]
) -> bool:
    """Whether a handshake is one of OpenAI's clients. `headers` has names in lower case.

    The first rule that applies decides. A key does not: all clients send it in the same way.
    """
    names, offered = frozenset(query), tuple(subprotocols)
    if path.rstrip("/") != DEMO_PATH:
        return True
    if names & _DEMO_QUERY or any(name.startswith("antiphon.") for name in offered):
        return False
    if names & _OPENAI_QUERY or "openai-beta" in headers:
        return True
    if any(name == OPENAI_PROTOCOL or name.startswith("openai-") for name in offered):
        return True
    return headers.get("user-agent", "").startswith(_OPENAI_AGENTS)
