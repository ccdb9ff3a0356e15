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


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/v1/responses", "use /v1/chat/completions "),
        ("/v1/responses/resp_1", "use /v1/chat/completions "),
        ("/openai/v1/responses", "use /v1/chat/completions "),
        ("/v1/completions", "use /v1/chat/completions"),
        ("/v1/audio/translations", "use /v1/audio/transcriptions"),
        ("/v1/realtime/sessions", "use /v1/realtime/client_secrets"),
        ("/v1/embeddings", "docs/openai.md"),
        ("/v1/images/generations", "docs/openai.md"),
    ],
)
async def test_a_route_of_openai_that_is_not_served_has_a_remedy(path: str, remedy: str) -> None:
    missing = HTTPException(404, "Not Found")
    response = await framework_error_response(connection("http", path), missing)
    error = json.loads(bytes(response.body))["error"]
    assert response.status_code == 404
    assert error["message"].startswith(f"this server does not serve {path}; ")
    assert remedy in error["message"]


async def test_a_base_url_without_its_end_has_a_remedy() -> None:
    missing = HTTPException(404, "Not Found")
    for path in ("/chat/completions", "/openai/models", "/v1/v1/audio/speech"):
        response = await framework_error_response(connection("http", path), missing)
        assert b"the base URL must end with /v1, once" in bytes(response.body)
    response = await framework_error_response(connection("http", "/unknown"), missing)
    assert json.loads(bytes(response.body))["message"] == "Not Found"
