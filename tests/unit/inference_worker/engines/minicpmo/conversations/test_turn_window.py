"""The window of half-duplex conversations, compared with the cache of the reference."""

from typing import Any

import pytest
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.conversations.prompts import AudioClip, PromptPart
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    AnswerSpeech,
    SpeechContext,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    WINDOW_HIGH_TOKENS,
    WINDOW_LOW_TOKENS,
    TurnWindow,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import TurnConversation
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Feed, Steps
from antiphon.inference_worker.engines.minicpmo.views.answering import answer_sampling
from antiphon.shared_schemas.config import GenerationConfig
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE, LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import Recorder, head_rows

FACTS = golden_set.facts_if_recorded("m_turn_window")
SLOT = 1


class Mute(AnswerSpeech):
    """The answers were recorded without codes: the text does not depend on them."""

    def __init__(self) -> None:
        context = SpeechContext(slot=SLOT, capacity=64, end_code=-1, settings=ANSWER_SPEECH)
        super().__init__(context, lambda _codes, _last: None)

    def continue_text(self) -> Steps[None]:
        yield from ()

    def finish(self, *, text_ends: bool) -> Steps[None]:
        yield from ()


def parts_of(content: list[Any]) -> list[PromptPart]:
    waves = golden_set.waves()
    return [
        part if isinstance(part, str) else AudioClip(clip_mels(waves[part[0]][part[1] : part[2]]))
        for part in content
    ]


def longest(facts: Any) -> int:
    return max(turn["kv"][moment] for turn in facts["turns"] for moment in turn["kv"])


@pytest.mark.parametrize("name", sorted(FACTS))
def test_the_lengths_of_the_reference(tokenizer: Tokenizer, name: str) -> None:
    """Also with the real sizes, 8000 and 6000 tokens."""
    facts = FACTS[name]
    length = facts["kv_after_system"]
    window = TurnWindow(facts["high"], facts["low"], protected=length)
    for turn in facts["turns"]:
        tokens, kv = turn["tokens"][: turn["max_new_tokens"]], turn["kv"]
        gone = window.excess(length, 9000)
        window, length = window.without(gone), length - gone
        uttered = kv["after_prefill"] + sum(turn["drops"]) - kv["before"]
        window, length = window.add_user_turn(length, uttered), length + uttered
        gone += (late := window.excess(length, 9000))
        window, length = window.without(late), length - late
        assert gone == sum(turn["drops"])
        assert length == kv["after_prefill"]
        if facts["generate_audio"] and "stop_after" not in turn:
            window = window.add_spoken_answer(tokenizer.encoded_length(tokens))
        length = kv["after_answer"]


@pytest.mark.skipif(not FACTS, reason="this set of recorded data has no windows")
def test_the_default_window_is_recorded() -> None:
    assert max((facts["high"], facts["low"]) for facts in FACTS.values()) == (
        WINDOW_HIGH_TOKENS,
        WINDOW_LOW_TOKENS,
    )


def recorded_caches() -> list[str]:
    """A conversation of the real size takes a minute."""
    return [name for name in sorted(FACTS) if longest(FACTS[name]) < 1000]


@pytest.mark.parametrize("name", recorded_caches())
def test_the_cache_of_the_reference(network: MiniCPMO, tokenizer: Tokenizer, name: str) -> None:
    """Every length, every token that is written after a drop, and the keys and values that are left."""
    facts, tensors = FACTS[name], golden_set.tensors("m_turn_window")
    capacity = -(-longest(facts) // 256) * 256 + 256
    runner = runner_of(network, tokenizer, context=capacity, speech_context=64)
    window = TurnWindow(facts["high"], facts["low"])
    session = TurnConversation(SLOT, tokenizer, capacity=capacity, window=window)
    spoken = facts["generate_audio"]
    sampling = answer_sampling(GenerationConfig(temperature=0.0), spoken=spoken)
    Recorder(runner).run(session.system(parts_of(facts["system"])))
    assert session.length == facts["kv_after_system"]
    with head_rows(network, facts["head_rows"]):
        for index, turn in enumerate(facts["turns"]):
            recorder, written = Recorder(runner), list[str]()

            def stopped(turn: Any = turn, written: list[str] = written) -> bool:
                return len(written) >= 10 * turn.get("stop_after", 1000)

            assert session.length == turn["kv"]["before"]
            recorder.run(session.make_room(0))
            recorder.run(session.user(parts_of(turn["user"])))
            assert session.length == turn["kv"]["after_prefill"], index
            fed = [answer.logits for _, answer in recorder.of(Feed) if answer.logits is not None]
            assert_close(fed[-1], tensors[f"{name}.turn{index}.prefill_logits"], **LOGITS)
            recorder.run(session.open_answer())
            limit = turn["max_new_tokens"]
            speech = Mute() if spoken else None
            answer = recorder.run(
                session.generate(sampling, limit, written.append, stopped, speech)
            )
            assert list(answer.tokens) == turn["tokens"][: len(answer.tokens)]
            assert session.length == turn["kv"]["after_answer"], index
    assert session.window.dropped == sum(sum(turn["drops"]) for turn in facts["turns"])
    every = facts["every"]
    for kind, cache in (("keys", runner.text_cache.keys), ("values", runner.text_cache.values)):
        kept = cache[-1][SLOT, : session.length : every].transpose(0, 1)
        assert_close(kept, tensors[f"{name}.last_{kind}.every{every}"], **CLOSE)
