"""What the engine needs of a backend server, for every protocol, and short HTTP requests to it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, ClassVar
from urllib.parse import urlsplit

_MAX_ANSWER = 1024 * 1024


class HttpFailure(Exception):
    """The server did not answer."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """`address` is `http://host:port`, or `https://…` for TLS."""

    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def websocket_url(self, path: str) -> str:
        return f"ws{self.address.removeprefix('http')}{path}"

    def refused_key(self, request: str, status: int) -> str:
        """What an operator can do about a status of 401 or 403; empty for others."""
        if status not in (401, 403):
            return ""
        remedy = "set the option `key_file`, or correct it"
        return f"{self.address} refuses the key: {remedy} ({request} answered {status})"

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON object of the answer; an answer that is no JSON object counts as an empty one.

        Raises HttpFailure.
        """
        url = urlsplit(self.address)
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = kind(url.netloc, timeout=timeout_s)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", **self.headers}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            raw = answer.read(_MAX_ANSWER)
        except (OSError, HTTPException) as error:
            raise HttpFailure(f"{self.address} does not answer ({cause_of(error)})") from error
        finally:
            connection.close()
        try:
            content = json.loads(raw)
        except ValueError:
            content = {}
        return answer.status, content if isinstance(content, dict) else {}


def cause_of(error: Exception) -> str:
    """The text of an exception; some have none."""
    return str(error) or type(error).__name__


class ServerUnavailable(Exception):
    """No session was opened: the server does not answer, or cannot be used."""


class ServerFull(Exception):
    """The server has its greatest number of sessions. `limit` is that number, if the server says it."""

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class Server(ABC):
    """A server that answered and was recognised."""

    protocol: ClassVar[str]
    """A worker's servers all speak the same one."""
    one_session: ClassVar[bool]
    """It holds one session, so slots and addresses are equally many."""
    limit: int | None = None
    """Its greatest number of sessions, if it has reported one."""

    def __init__(self, access: ServerAccess) -> None:
        self.access = access

    @property
    def address(self) -> str:
        return self.access.address

    @property
    @abstractmethod
    def product(self) -> str:
        """Its name for operators."""

    @abstractmethod
    def room(self, most: int) -> int:
        """How many sessions it admits now beside those it has, and `most` if it admits more.

        Raises ServerUnavailable.
        """

    @abstractmethod
    def describe(self) -> str:
        """What `antiphon doctor` says about it."""
