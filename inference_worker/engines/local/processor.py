"""The local engine: loads the models once and creates a session per slot."""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from antiphon.inference_worker.engines.local.chat import LocalChatView
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.half_duplex import LocalHalfDuplexView
from antiphon.inference_worker.engines.local.models import LocalModels, LocalSlot
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.voices.cancellation import Cancellation
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.inference_worker.engines.processor import SessionView, SlotPool, UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineError, EngineInfo, LoadProgress
from antiphon.shared_schemas.states import SessionKind

ViewT = TypeVar("ViewT", bound=SessionView)

_BUNDLED_NAME = "SmolLM2-135M-Instruct"
_CHUNK_MS = 200
"""An answer waits for the end of a chunk. Shorter ones would cost more than the wait is worth."""

_REHEARSES_AFTER_S = 2.0

_THREADS_PER_SLOT = 3
"""A reply, the reply that it replaces, and the read-ahead of the dialogue may overlap."""

log = structlog.get_logger()


class LocalProcessor(UnifiedProcessor):
    """Silero VAD, Moonshine or Whisper, a GGUF language model and Kokoro's voices behind the method chain."""

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        self._models: LocalModels | None = None
        self._slots = SlotPool(options.slots)
        self._views: dict[int, SessionView] = {}
        self._is_used = Cancellation()
        self._pool = ThreadPoolExecutor(
            options.slots * _THREADS_PER_SLOT, thread_name_prefix="local-reply"
        )

    @property
    def info(self) -> EngineInfo:
        path, options = self._options.model_path, self._options
        # Before it is loaded, the sight counts as complete: pages ask once.
        voices = self._models.voices.entries if self._models is not None else ()
        sees = self._models.sees if self._models is not None else options.sight or options.llm_sees
        return EngineInfo(
            name="local",
            model=options.llm_model or (path.stem if path else _BUNDLED_NAME),
            kinds=frozenset(SessionKind),
            device=f"cpu ({platform.machine()})",
            context_tokens=self._options.context_tokens,
            sees_frames=sees,
            sees_in_words=sees and not options.llm_sees,
            hears=(self._options.language,),
            speaks=(self._options.spoken_language,),
            calls_tools=self._models is not None and self._models.llm.knows_tools,
            forces_calls=True,
            greets=True,
            takes_texts=True,
            interim_transcripts=True,
            chunk_ms=_CHUNK_MS,
            transcribes=True,
            reads_aloud=True,
            matches_voice=len(voices) > 1,
            voices=voices,
        )

    def load(self, report: LoadProgress) -> None:
        self._models = LocalModels.load(self._options, report)
        self._pool.submit(self._rehearse, self._models.voices)
        log.info("local_engine_loaded", model=self.info.model, slots=self._options.slots)

    @property
    def trouble(self) -> str:
        return self._models.llm.trouble if self._models is not None else ""

    def set_duplex_mode(self) -> LocalDuplexView:
        return self._open(LocalDuplexView)

    def set_half_duplex_mode(self) -> LocalHalfDuplexView:
        return self._open(LocalHalfDuplexView)

    def set_chat_mode(self) -> LocalChatView:
        return self._open(LocalChatView)

    def close(self) -> None:
        """End all sessions and free the models; the engine can be loaded again."""
        for view in list(self._views.values()):
            view.cleanup()
        self._is_used.set()
        self._pool.shutdown()
        models, self._models = self._models, None
        if models is not None:
            models.close()

    def _rehearse(self, voices: Voices) -> None:
        """Until the first session opens, while the machine is idle: sessions and other programs come first."""
        is_used = self._is_used
        try:
            while not is_used.wait(_REHEARSES_AFTER_S):
                if voices.rehearse(is_used, _is_busy):
                    return
        except Exception as error:  # noqa: BLE001 - answers can do without it
            log.warning("rehearsal_failed", error=repr(error))

    def _open(self, view_type: Callable[[LocalSlot], ViewT]) -> ViewT:
        if self._models is None:
            raise EngineError("the engine is not loaded")
        self._is_used.set()
        number = self._slots.acquire()
        slot = LocalSlot(number, self._options, self._pool, self._models)
        slot.release.callback(self._release, number)
        view = self._views[number] = view_type(slot)
        return view

    def _release(self, slot: int) -> None:
        self._views.pop(slot, None)
        self._slots.release(slot)


def _is_busy() -> bool:
    """Whether more threads of the machine run or wait than it has cores, in the mean of a minute."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)
