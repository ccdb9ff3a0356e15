"""The engine: one session on each backend server."""

from __future__ import annotations

from antiphon.inference_worker.engines.backend.duplex import BackendDuplexView
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.backend.turns import (
    KEPT_TURNS,
    BackendChatView,
    BackendHalfDuplexView,
)
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineInfo, LoadProgress
from antiphon.shared_schemas.states import SessionKind

_LANGUAGES = ("en", "zh")


class BackendProcessor(UnifiedProcessor):
    """Computes nothing itself, so its memory is that of this process."""

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._servers = ServerPool(options.addresses)
        self._loaded = False

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="backend",
            model=self._options.model,
            kinds=frozenset(SessionKind),
            device="remote",
            context_tokens=self._options.context_tokens,
            sees_frames=True,
            clones_voice=True,
            hears=_LANGUAGES,
            speaks=_LANGUAGES,
            replayed_audio=KEPT_TURNS,
        )

    @property
    def unusable_slots(self) -> int:
        return self._servers.quarantined if self._loaded else 0

    def load(self, report: LoadProgress) -> None:
        """Wait for the first server. Others are used as soon as they answer."""
        report(f"waiting for {', '.join(self._options.addresses)}")
        self._servers.start(self._options.start_timeout_s)
        self._loaded = True

    def set_duplex_mode(self) -> BackendDuplexView:
        return BackendDuplexView(self._options, self._servers)

    def set_half_duplex_mode(self) -> BackendHalfDuplexView:
        return BackendHalfDuplexView(self._options, self._servers)

    def set_chat_mode(self) -> BackendChatView:
        return BackendChatView(self._options, self._servers)

    def close(self) -> None:
        self._servers.close()
