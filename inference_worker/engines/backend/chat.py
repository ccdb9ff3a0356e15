"""One chat request on a backend server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.inference_worker.engines.backend.answering import BackendAnsweringView
from antiphon.inference_worker.engines.backend.messages import turn_input
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import Delta, ProgressCallback, no_progress
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import ConversationMessage


class BackendChatView(BackendAnsweringView, ChatView):
    """The server receives the history with `generate`, so `prefill` reports no tokens of it."""

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._request: dict[str, Any] = {}

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,  # noqa: ARG002  # a server reports none
    ) -> int:
        self._begin(messages, thinks=options.enable_thinking)
        speaks = options.tts.enabled
        self._request = turn_input(messages, options.generation, ref_audio, speaks=speaks) | {
            "omni_mode": options.omni_mode,
            "use_tts_template": options.use_tts_template or speaks,
            "enable_thinking": options.enable_thinking,
        }
        if options.max_slice_nums is not None:
            self._request["image"] = {"max_slice_nums": options.max_slice_nums}
        return self.kv_cache_length

    def generate(self) -> Iterator[Delta]:
        return self._answer(self._request)
