"""The engine as the worker sees it: load a checkpoint folder, create sessions."""

import itertools
from pathlib import Path

import structlog
import torch

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import read_config
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import (
    EngineParts,
    SlotLease,
)
from antiphon.inference_worker.engines.minicpmo.device import pick_device
from antiphon.inference_worker.engines.minicpmo.model.load import load_network
from antiphon.inference_worker.engines.minicpmo.model.memory import (
    check_memory,
    estimate,
    free_bytes,
    log_memory,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import Sampler
from antiphon.inference_worker.engines.minicpmo.token2wav.checkpoint_guard import check_yaml
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import load_token2wav
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import Vocoder, find_token2wav
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import (
    BESIDE_MODEL,
    REPOSITORY,
    check_imports,
    check_package,
    check_voice,
    voice_folder,
)
from antiphon.inference_worker.engines.minicpmo.views.chat import MiniCPMOChatView
from antiphon.inference_worker.engines.minicpmo.views.duplex import (
    SILENT_SECOND,
    MiniCPMODuplexView,
)
from antiphon.inference_worker.engines.minicpmo.views.half_duplex import MiniCPMOHalfDuplexView
from antiphon.inference_worker.engines.processor import (
    ChatView,
    DuplexView,
    HalfDuplexView,
    SlotPool,
    UnifiedProcessor,
)
from antiphon.inference_worker.engines.types import EngineError, EngineInfo, LoadProgress
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.registry import Memory
from antiphon.shared_schemas.states import SessionKind

log = structlog.get_logger()

_LANGUAGES = ("en", "zh")
"""Languages of MiniCPM-o's speech."""

_LEAST_UNIT_TOKENS = 10
"""Of one second of audio."""


class MiniCPMOProcessor(UnifiedProcessor):
    """MiniCPM-o 4.5 from `folder`. It speaks if `options.vocoder` names the weights of Token2wav."""

    def __init__(self, folder: Path, options: EngineOptions | None = None) -> None:
        self._folder = folder
        self._options = options or EngineOptions()
        self._slots = SlotPool(self._options.slots)
        self._seeds = itertools.count(self._options.seed)
        self._parts: EngineParts | None = None
        self._device = self._options.device

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="minicpmo",
            model=self._folder.name,
            kinds=frozenset(SessionKind),
            device=self._device,
            context_tokens=self._options.context_tokens,
            sees_frames=True,
            clones_voice=find_token2wav(self._folder, self._options) is not None,
            hears=_LANGUAGES,
            speaks=_LANGUAGES,
            calls_tools=self._parts is not None and self._parts.tokenizer.knows_tools,
            greets=True,
            replayed_audio=self._options.context_tokens // _LEAST_UNIT_TOKENS,
        )

    def load(self, report: LoadProgress) -> None:
        options = self._options
        config = read_config(self._folder)
        device = pick_device(options.device)
        speech = find_token2wav(self._folder, options)
        if speech is not None:  # before the weights are read, which takes minutes
            check_voice(speech)
            check_yaml(speech)
            check_package()
            check_imports()
        free = free_bytes(device)
        check_memory(config, options, device, voices=speech is not None, free=free)
        report("tokenizer")
        tokenizer = Tokenizer(self._folder)
        network = load_network(self._folder, options, report)
        vocoder = self._load_vocoder(speech, device, report)
        runner = ModelRunner(
            network,
            Sampler(tokenizer.ids, tokenizer.forbidden, options.fidelity),
            slots=options.slots,
            context=options.context_tokens,
            speech_context=options.speech_tokens,
            invariant=device.type == "cpu"
            if options.fixed_shapes is None
            else options.fixed_shapes,
            cuda_graphs=options.cuda_graphs and device.type == "cuda",
            speech_stream=options.speech_stream and device.type == "cuda",
        )
        runner.enter_thread()
        if runner.graphs.enabled:
            report("CUDA graphs")
            runner.capture_graphs()
        if device.type == "cuda":
            report("short steps")
            runner.warm_up()
        self._device = str(device)
        self._parts = EngineParts(
            config=config,
            options=options,
            tokenizer=tokenizer,
            engine=Engine(runner),
            vocoder=vocoder,
        )
        report("warm-up")
        self._warm_up()
        counted = estimate(config, options, device.type, voices=speech is not None)
        log_memory(counted.of(options.slots), free, device)

    def set_duplex_mode(self) -> DuplexView:
        return MiniCPMODuplexView(*self._lease_slot())

    def set_half_duplex_mode(self) -> HalfDuplexView:
        return MiniCPMOHalfDuplexView(*self._lease_slot())

    def set_chat_mode(self) -> ChatView:
        return MiniCPMOChatView(*self._lease_slot())

    def memory(self) -> Memory:
        """On a GPU the bytes held by torch's allocator; reading them does not block on the driver."""
        if self._parts is None or not self._device.startswith("cuda"):
            return super().memory()
        device = torch.device(self._device)
        total = torch.cuda.get_device_properties(device).total_memory
        return Memory(torch.cuda.memory_reserved(device), total)

    def close(self) -> None:
        if self._parts is not None:
            self._parts.engine.close()
            if self._parts.vocoder is not None:
                self._parts.vocoder.close()
            self._parts = None

    def _lease_slot(self) -> tuple[EngineParts, SlotLease]:
        parts = self._parts
        if parts is None:
            raise EngineError("the engine is not loaded")
        slot = self._slots.acquire()
        return parts, SlotLease(parts.engine, slot, next(self._seeds), self._slots.release)

    def _load_vocoder(
        self, folder: Path | None, device: torch.device, report: LoadProgress
    ) -> Vocoder | None:
        if folder is None:
            log.warning(
                "no_vocoder",
                consequence="sessions that request audio are refused",
                looked_in=str(voice_folder(self._folder, self._options)),
                remedy=f"the option vocoder: the folder {BESIDE_MODEL} of {REPOSITORY}",
            )
            return None
        report("vocoder")
        vocoder = load_token2wav(folder, self._options, device)
        vocoder.warm_up(self._options.slots)
        return vocoder

    def _warm_up(self) -> None:
        """Run one unit of silence. The vocoder has its own warm-up."""
        view = self.set_duplex_mode()
        try:
            view.prepare("warm-up", DuplexConfig(generate_audio=False, force_listen_count=0))
            view.prefill(SILENT_SECOND)
            view.generate()
            view.finalize()
        finally:
            view.cleanup()
