"""The engine `local` keeps the contract of engines."""

import numpy as np
import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from support.speech import say
from support.synthetic_speech import ITALY, STEADY

pytestmark = pytest.mark.speech

SHORT = GenerationConfig(max_new_tokens=8)


@pytest.fixture
def engine(local_engine: LocalProcessor) -> LocalProcessor:
    return local_engine


class TestLocal(EngineConformance):
    units = 7
    exact_recovery = False
    duplex_config = STEADY
    half_duplex_config = HalfDuplexConfig(generation=SHORT, tts=TtsConfig(enabled=False))
    chat_options = ChatOptions(generation=SHORT)

    def sound(self, second: int) -> Samples:
        """A question, then silence."""
        chunk = say(ITALY)[second * INPUT_RATE : (second + 1) * INPUT_RATE]
        return np.pad(chunk, (0, INPUT_RATE - len(chunk)))
