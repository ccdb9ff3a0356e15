"""Which form an error has: OpenAI's SDKs and the other clients read different bodies."""

import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from antiphon.edge.errors import framework_error_response


def connection(kind: str, path: str, query: str = "") -> HTTPConnection:
    scope: dict[str, Any] = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    ("kind", "path", "query", "is_openai"),
    [
        ("http", "/v1/models", "", True),
        ("http", "/openai/v1/chat/completions", "", True),
        ("http", "/v1/realtime/client_secrets", "", True),
        ("http", "/v1/realtime", "mode=audio", False),
        ("websocket", "/v1/realtime", "mode=audio", False),
        ("websocket", "/v1/realtime", "model=m", True),
        ("websocket", "/realtime", "", True),
        ("websocket", "/openai/realtime", "", True),
        ("websocket", "/v1/live/sessions", "", True),
        ("websocket", "/ws/duplex/a", "", False),
    ],
)
async def test_a_refusal_has_the_form_that_its_client_reads(
    kind: str, path: str, query: str, is_openai: bool
) -> None:
    refused = HTTPException(401, "an API key is required")
    response = await framework_error_response(connection(kind, path, query), refused)
    error = json.loads(bytes(response.body))["error"]
    assert isinstance(error, dict) is is_openai
