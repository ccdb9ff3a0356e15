"""The engine: sessions on backend servers, and what `antiphon doctor` finds out about these."""

from collections.abc import Iterator

from antiphon.inference_worker.engines.backend.demo_protocol.duplex import BackendDuplexView
from antiphon.inference_worker.engines.backend.demo_protocol.turns import (
    BackendChatView,
    BackendHalfDuplexView,
)
from antiphon.inference_worker.engines.backend.half_duplex import KEPT_TURNS
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server import Server, ServerUnavailable
from antiphon.inference_worker.engines.backend.server_pool import ServerPool, recognise
from antiphon.inference_worker.engines.backend.vllm_omni.chat import (
    VllmOmniChatView,
    VllmOmniHalfDuplexView,
)
from antiphon.inference_worker.engines.backend.vllm_omni.duplex import VllmOmniDuplexView
from antiphon.inference_worker.engines.backend.vllm_omni.server import VllmOmniServer
from antiphon.inference_worker.engines.processor import (
    ChatView,
    DuplexView,
    HalfDuplexView,
    UnifiedProcessor,
)
from antiphon.inference_worker.engines.types import EngineInfo, EngineLoadError, LoadProgress
from antiphon.shared_schemas.findings import Finding, failure, ok
from antiphon.shared_schemas.states import SessionKind

_LANGUAGES = ("en", "zh")
_DUPLEX = frozenset({SessionKind.AUDIO_DUPLEX, SessionKind.OMNI_DUPLEX})
_TURNS = frozenset({SessionKind.HALF_DUPLEX, SessionKind.CHAT, SessionKind.TURNS})


class BackendProcessor(UnifiedProcessor):
    """Computes nothing itself, so its memory is that of this process."""

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._servers = ServerPool(options.accesses(), options.slots)

    @property
    def _is_vllm_omni(self) -> bool:
        """Before a server has answered, it is not known what they are."""
        return isinstance(self._servers.first, VllmOmniServer)

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="backend",
            model=self._options.model,
            kinds=self._kinds(),
            device="remote",
            context_tokens=self._options.context_tokens,
            sees_frames=True,
            clones_voice=True,
            hears=_LANGUAGES,
            speaks=_LANGUAGES,
            replayed_audio=KEPT_TURNS,
        )

    def _kinds(self) -> frozenset[SessionKind]:
        """The kinds of sessions that every server offers."""
        kinds = frozenset(SessionKind)
        for server in self._servers.servers:
            if isinstance(server, VllmOmniServer):
                kinds -= frozenset() if server.offers_duplex else _DUPLEX
                kinds -= frozenset() if server.offers_chat else _TURNS
        return kinds

    @property
    def unusable_slots(self) -> int:
        if self._servers.first is None:
            return 0
        return max(0, self._options.slots - self._servers.usable)

    @property
    def trouble(self) -> str:
        return self._servers.problems

    def load(self, report: LoadProgress) -> None:
        """Wait for the first server. Others are used as soon as they answer."""
        report(f"waiting for {', '.join(self._options.addresses)}")
        server = self._servers.start(self._options.start_timeout_s)
        if problem := self._options.wrong_slots(server):
            raise EngineLoadError(problem)

    def set_duplex_mode(self) -> DuplexView:
        view = VllmOmniDuplexView if self._is_vllm_omni else BackendDuplexView
        return view(self._options, self._servers)

    def set_half_duplex_mode(self) -> HalfDuplexView:
        view = VllmOmniHalfDuplexView if self._is_vllm_omni else BackendHalfDuplexView
        return view(self._options, self._servers)

    def set_chat_mode(self) -> ChatView:
        view = VllmOmniChatView if self._is_vllm_omni else BackendChatView
        return view(self._options, self._servers)

    def close(self) -> None:
        self._servers.close()


_REMEDY = "start the server, or correct `addresses`, `key_file` or `headers`"


def examine(options: BackendOptions) -> Iterator[Finding]:
    """Opens a session on each server that admits several, and ends it."""
    servers: list[Server] = []
    for access in options.accesses():
        try:
            server = recognise(access)
            server.room(1)
        except ServerUnavailable as error:
            yield failure(access.address, str(error), _REMEDY)
        else:
            servers.append(server)
            yield ok(access.address, server.describe())
    if len({server.protocol for server in servers}) > 1:
        yield failure("addresses", "the servers speak different protocols", "one worker for each")
    elif servers and (problem := options.wrong_slots(servers[0])):
        yield failure("slots", problem, "set ANTIPHON_SLOTS")
