"""Short HTTP requests to a backend server: its health page, and the end of a session."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit


class HttpFailure(Exception):
    """The server did not answer."""


def call(
    address: str, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float
) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of the answer; an answer that is no JSON object counts as an empty one.

    Raises HttpFailure.
    """
    url = urlsplit(address)
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.netloc, timeout=timeout_s)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        raw = answer.read()
    except (OSError, HTTPException) as error:
        raise HttpFailure(f"{address} does not answer ({error or type(error).__name__})") from error
    finally:
        connection.close()
    try:
        content = json.loads(raw)
    except ValueError:
        content = {}
    return answer.status, content if isinstance(content, dict) else {}
