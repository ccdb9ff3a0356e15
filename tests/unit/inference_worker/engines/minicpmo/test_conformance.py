"""The engine `minicpmo` with the tiny checkpoint keeps the contract of engines."""

from collections.abc import Iterator

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.shared_schemas.config import (
    ChatOptions,
    DuplexConfig,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from support.minicpmo.golden_set import CHECKPOINT

SHORT = GenerationConfig(max_new_tokens=8)
SILENT = TtsConfig(enabled=False)


@pytest.fixture(scope="module")
def engine() -> Iterator[UnifiedProcessor]:
    slots = EngineConformance.slots
    options = {"context_tokens": 640, "speech_tokens": 256, "device": "cpu"}
    engine = build_processor("minicpmo", slots=slots, model_path=CHECKPOINT, options=options)
    engine.load(lambda _: None)
    yield engine
    engine.close()


class TestMiniCPMO(EngineConformance):
    duplex_config = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)
    half_duplex_config = HalfDuplexConfig(generation=SHORT, tts=SILENT)
    chat_options = ChatOptions(generation=SHORT, tts=SILENT)
