"""A vLLM-Omni server: its model, its limit, and what it offers."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from antiphon.inference_worker.engines.backend.server import (
    HttpFailure,
    Server,
    ServerAccess,
    ServerFull,
    ServerUnavailable,
)
from antiphon.inference_worker.engines.backend.vllm_omni.messages import session_update
from antiphon.inference_worker.engines.backend.vllm_omni.session import NotOffered, OmniSession
from antiphon.inference_worker.engines.types import EngineError

_TIMEOUT_S = 10.0
_OPEN_TIMEOUT_S = 30.0
_NATIVE = "model_native_duplex"


class VllmOmniServer(Server):
    """Admits several sessions. It tells their greatest number only when it refuses one."""

    protocol = "vLLM-Omni"
    one_session = False

    def __init__(self, access: ServerAccess) -> None:
        super().__init__(access)
        self.model = ""
        self.offers_duplex = False
        self.offers_chat = False
        self._version = ""
        self._capabilities: dict[str, Any] = {}

    @property
    def product(self) -> str:
        return "vLLM-Omni"

    def room(self, most: int) -> int:
        """Opens sessions until the server refuses one, and ends them."""
        self.model = self._find_model()
        self._version = self._ask("/version").get("version", "")
        self.offers_chat = self._has_chat()
        with ExitStack() as opened:
            for count in range(most):
                session = OmniSession(self.access, lambda: False)
                opened.callback(session.close)
                try:
                    session.open(session_update(self.model, ""), _OPEN_TIMEOUT_S)
                except ServerFull as full:
                    self.limit = full.limit if full.limit is not None else self.limit
                    self.offers_duplex = True
                    return count
                except NotOffered as reason:
                    return self._without_duplex(most, str(reason))
                except EngineError as error:
                    raise ServerUnavailable(f"{self.address}: {error}") from error
                self._check_protocol(session)
        return most

    def describe(self) -> str:
        offers = ", ".join(self._offers())
        version = f" on vLLM {self._version}" if self._version else ""
        full = f"; at most {self.limit} sessions, and all are in use" if self.limit else ""
        return f"answers: vLLM-Omni{version}, {self.model}: {offers}{full}"

    def _offers(self) -> Iterator[str]:
        if self.offers_duplex:
            yield "full duplex"
        if self._capabilities.get("supports_session_resume"):
            yield "resume"
        if self._capabilities.get("supports_playback_ack"):
            yield "reports of playback"
        if self.offers_chat:
            yield "chat and half duplex"

    def _ask(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`; empty if there is none. Raises ServerUnavailable."""
        try:
            status, page = self.access.call("GET", path, timeout_s=_TIMEOUT_S)
        except HttpFailure as error:
            raise ServerUnavailable(str(error)) from error
        if refusal := self.access.refused_key(f"GET {path}", status):
            raise ServerUnavailable(refusal)
        return page if status == 200 else {}

    def _find_model(self) -> str:
        models = self._ask("/v1/models").get("data")
        first = models[0] if isinstance(models, list) and models else None
        name = first.get("id") if isinstance(first, dict) else None
        if not isinstance(name, str) or not name:
            raise ServerUnavailable(f"GET {self.address}/v1/models names no model")
        return name

    def _has_chat(self) -> bool:
        """A request without messages is refused as such only where chat is offered."""
        body = {"model": self.model, "messages": [], "max_tokens": 1}
        try:
            status, _ = self.access.call("POST", "/v1/chat/completions", body, timeout_s=_TIMEOUT_S)
        except HttpFailure as error:
            raise ServerUnavailable(str(error)) from error
        return status not in (404, 405, 501)

    def _without_duplex(self, most: int, reason: str) -> int:
        if not self.offers_chat:
            text = f"offers neither full duplex ({reason}) nor chat"
            raise ServerUnavailable(f"{self.address} {text}")
        self.offers_duplex = False
        return most

    def _check_protocol(self, session: OmniSession) -> None:
        """Raises ServerUnavailable if the server or its model is another one than the engine expects."""
        self._capabilities = session.capabilities
        level = self._capabilities.get("implementation_level")
        if level != _NATIVE:
            text = (
                f"serves {self.model!r} with implementation_level {level!r}; {_NATIVE!r} is needed"
            )
            raise ServerUnavailable(f"{self.address} {text}")
        self.offers_duplex = True
