"""Answers that another worker began: the rest equals an uninterrupted answer."""

from collections.abc import Iterator

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import NEVER
from antiphon.inference_worker.engines.minicpmo.views.chat import MiniCPMOChatView
from antiphon.inference_worker.engines.minicpmo.views.half_duplex import MiniCPMOHalfDuplexView
from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
)
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT, LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import GREEDY, Recorder, session_of

pytestmark = pytest.mark.usefixtures("releases_slots")

GENERATION = GenerationConfig(max_new_tokens=24, temperature=0.0)
HALF_DUPLEX = HalfDuplexConfig(generation=GENERATION, tts=TtsConfig(enabled=False))
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("You are a helpful assistant."),))
QUESTION = ConversationMessage(Role.USER, (TextPart("say something"),))

View = MiniCPMOChatView | MiniCPMOHalfDuplexView


@pytest.fixture(scope="module")
def processor() -> Iterator[MiniCPMOProcessor]:
    """An engine that writes plain words, so that a text determines its tokens."""
    options = EngineOptions(slots=2, context_tokens=640, speech_tokens=256, device="cpu")
    engine = MiniCPMOProcessor(CHECKPOINT, options)
    engine.load(lambda _line: None)
    assert engine._parts is not None
    tokenizer, sampler = (
        engine._parts.tokenizer,
        engine._parts.engine._runner._choices[True]._sampler,
    )
    other = torch.tensor([n for n in range(len(tokenizer)) if not _is_plain(tokenizer, n)])
    sampler._forbid = lambda logits, _settings: logits.index_fill(1, other, NEVER)  # type: ignore[method-assign]
    yield engine
    engine.close()


def _is_plain(tokenizer: Tokenizer, token: int) -> bool:
    text = tokenizer.decode([token])
    return bool(text) and text.isascii() and text.isprintable()


def asked(processor: MiniCPMOProcessor, kind: str) -> View:
    if kind == "chat":
        chat = processor.set_chat_mode()
        assert isinstance(chat, MiniCPMOChatView)
        chat.prefill([QUESTION], ChatOptions(generation=GENERATION))
        return chat
    view = processor.set_half_duplex_mode()
    assert isinstance(view, MiniCPMOHalfDuplexView)
    view.prepare(SYSTEM, HALF_DUPLEX)
    view.prefill(golden_set.waves()["w_user"])
    return view


def text_of(pieces: Iterator[Delta]) -> str:
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize("kind", ["chat", "half-duplex"])
def test_another_worker_continues_the_answer(processor: MiniCPMOProcessor, kind: str) -> None:
    first = asked(processor, kind)
    whole = text_of(first.generate())
    answer = first._last
    assert answer is not None
    tokens, length = answer.tokens, first._session.length
    first.cleanup()
    assert processor._parts is not None
    tokenizer = processor._parts.tokenizer
    same = [
        n
        for n in range(1, len(tokens))
        if tuple(tokenizer.encode(tokenizer.decode(tokens[:n]))) == tokens[:n]
    ]
    for count in {same[0], same[len(same) // 2], same[-1]}:
        said = tokenizer.decode(tokens[:count])
        second = asked(processor, kind)
        pieces = list(second.resume(said))
        assert said + text_of(iter(pieces)) == whole
        assert sum(piece.n_tokens for piece in pieces) == len(tokens) - count
        assert second._last == answer
        assert second._session.length == length
        second.cleanup()


def test_the_existing_text_counts_and_a_whole_answer_is_not_repeated(
    processor: MiniCPMOProcessor,
) -> None:
    first = asked(processor, "chat")
    whole = text_of(first.generate())
    first.cleanup()
    second = asked(processor, "chat")
    assert list(second.resume(whole + whole)) == []
    second.cleanup()


def test_tokens_in_one_piece_leave_the_same_scores(network: MiniCPMO, tokenizer: Tokenizer) -> None:
    """The next choice after all tokens of an answer at once, and after one by one."""
    runner = runner_of(network, tokenizer, speech_context=64, invariant=True)

    def answered(said: list[int]) -> tuple[list[int], list[torch.Tensor]]:
        recorder, session = Recorder(runner), session_of(tokenizer)
        recorder.run(session.chat([("user", ["hello the world"])]))
        answer = recorder.run(session.generate(GREEDY, 12, said=said))
        return list(answer.tokens), [draw.logits for draw in recorder.draws]

    whole, early = answered([])
    again, late = answered(whole[:8])
    assert again == whole
    assert_close(torch.stack(late), torch.stack(early[8:]), **LOGITS)
