"""Whose connection it is: OpenAI's clients and those of the public demo use the same path."""

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


def is_openai_socket(connection: HTTPConnection) -> bool:
    """Whether this is the handshake of a WebSocket for OpenAI's Realtime API."""
    scope = connection.scope
    path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
    return (
        scope["type"] == "websocket"
        and path in (DEMO_PATH, *ALIASES)
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
    if path != DEMO_PATH:
        return True
    if names & _DEMO_QUERY or any(name.startswith("antiphon.") for name in offered):
        return False
    if names & _OPENAI_QUERY or "openai-beta" in headers:
        return True
    if any(name == OPENAI_PROTOCOL or name.startswith("openai-") for name in offered):
        return True
    return headers.get("user-agent", "").startswith(_OPENAI_AGENTS)
