import threading

import numpy as np
import pytest

from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor
from antiphon.inference_worker.engines.types import EngineError, PastTurn
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart

FAST = SimulatedOptions(slots=1, prepare_ms=0, prefill_ms=0, speak_ms=0, answer_pieces=4)
SECOND = np.zeros(16_000, dtype=np.float32)
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("be brief"),))
WORDS = ["This is simulated.", " 2", " 3", " 4"]


def test_half_duplex_turns() -> None:
    view = SimulatedProcessor(FAST).set_half_duplex_mode()
    assert view.prepare(SYSTEM, HalfDuplexConfig()) == 2
    for turn in (1, 2):
        view.prefill(SECOND)
        deltas = list(view.generate())
        assert [delta.text for delta in deltas] == WORDS
        assert all(delta.audio.shape == (12_000,) for delta in deltas)
        assert view.memo() == {"simulated": True}
        assert view.kv_cache_length == 50 * turn
    view.rollback()
    assert view.kv_cache_length == 50
    view.replay([PastTurn(audio=None, text="")] * 3)
    assert view.kv_cache_length == 150
    assert [delta.text for delta in view.resume("This is simulated. 2")] == WORDS[2:]


def test_a_break_ends_one_answer_and_a_stop_ends_all() -> None:
    view = SimulatedProcessor(FAST).set_half_duplex_mode()
    view.prepare(SYSTEM, HalfDuplexConfig())
    view.prefill(SECOND)
    deltas = view.generate()
    next(deltas)
    view.set_break()
    assert list(deltas) == []
    view.prefill(SECOND)
    assert len(list(view.generate())) == 4
    view.stop()
    view.prefill(SECOND)
    assert list(view.generate()) == []


def test_chat_follows_its_options() -> None:
    view = SimulatedProcessor(FAST).set_chat_mode()
    short = ChatOptions(generation=GenerationConfig(max_new_tokens=2), tts=TtsConfig(enabled=True))
    assert view.prefill([SYSTEM, SYSTEM], short) == 4
    deltas = list(view.generate())
    assert [delta.text for delta in deltas] == WORDS[:2]
    assert all(len(delta.audio) for delta in deltas)
    view.prefill([SYSTEM], ChatOptions())
    assert not any(len(delta.audio) for delta in view.generate())


def test_stop_ends_an_answer_in_progress() -> None:
    engine = SimulatedProcessor(FAST.model_copy(update={"speak_ms": 600_000.0}))
    view = engine.set_chat_mode()
    view.prefill([SYSTEM], ChatOptions())
    worker = threading.Thread(target=lambda: list(view.generate()))
    worker.start()
    view.stop()
    worker.join(timeout=60)
    assert not worker.is_alive()


def test_all_kinds_share_the_slots() -> None:
    engine = SimulatedProcessor(FAST)
    first = engine.set_chat_mode()
    with pytest.raises(EngineError, match="1 slots"):
        engine.set_half_duplex_mode()
    first.cleanup()
    first.cleanup()
    engine.set_half_duplex_mode().cleanup()
