"""Answers of chats that are not streamed, compared with the tokens and codes of the reference."""

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.conversations.beam_search import BeamCursor
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    AnswerSpeech,
    SpeechContext,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeSpeech,
    Feed,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.views.answering import search_sampling
from antiphon.inference_worker.engines.types import ContextFull
from antiphon.shared_schemas.config import GenerationConfig
from support.minicpmo import golden_set
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import GREEDY, RecordedDraws, Recorder, head_rows, session_of

FACTS = golden_set.facts_if_recorded("j_unstreamed_answers")


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, speech_context=1024, invariant=True)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_answers_of_the_reference(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner, name: str
) -> None:
    facts = FACTS[name]
    settings, end = facts["settings"], network.config.tts_config.end_code
    audio, limit = settings["generate_audio"], settings["max_new_tokens"]
    session, recorder = session_of(tokenizer), Recorder(runner)
    generation = GenerationConfig(temperature=0.7 if settings["do_sample"] else 0.0)
    codes, code_draws = list[int](), RecordedDraws(facts.get("code_draws", []))
    session._rng = RecordedDraws(facts["text_draws"])
    speaker = None
    if audio:
        context = SpeechContext(
            slot=1, capacity=1024, end_code=end, settings=ANSWER_SPEECH, rng=code_draws
        )
        speaker = AnswerSpeech(context, lambda second, _last: codes.extend(second))
    with head_rows(network, facts["head_rows"], facts["head_scale"]):
        turns = [(message["role"], [message["content"]]) for message in facts["messages"]]
        recorder.run(session.chat(turns, speak=audio))
        assert session.length == facts["prompt_len"]
        sampling = search_sampling(generation)
        answer = recorder.run(session.search_answer(sampling, limit))
        if speaker is not None:
            recorder.run(session.speak_answer(answer, speaker))
    ended = facts["tokens"][-1] in tokenizer.ids.chat_ends
    assert list(answer.tokens) == (facts["tokens"][:-1] if ended else facts["tokens"])
    assert answer.cut == (not ended)
    assert session._rng.left == []
    assert codes == facts.get("codes", [])
    assert code_draws.left == []
    if audio:
        [(_, condition)] = recorder.of(SpeechCondition)
        assert len(condition) == facts["condition_len"]
        assert len(recorder.of(DecodeSpeech)) == 1


def test_a_search_ends_where_the_context_is_full(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    session, recorder = session_of(tokenizer), Recorder(runner)
    recorder.run(session.chat([("user", ["hello the world"])]))
    session._capacity = session.length + 4
    answer = recorder.run(session.search_answer(GREEDY, 40))
    assert len(answer.tokens) <= 4
    session = session_of(tokenizer)
    recorder.run(session.chat([("user", ["hello the world"])]))
    session._capacity = session.length
    with pytest.raises(ContextFull, match="is full"):
        recorder.run(session.search_answer(GREEDY, 40))


def test_a_search_feeds_only_the_tokens_that_differ(
    tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    session, recorder = session_of(tokenizer), Recorder(runner)
    recorder.run(session.chat([("user", ["hello the world"])]))
    cursor, start = BeamCursor(session, session.length), session.length
    first, second, third = (5, 6, 7), (5, 9, 8), (5, 6, 4)
    results = recorder.run(cursor.feed([first, second, third]))
    fed = [step.pieces for step, _ in recorder.of(Feed)][1:]
    assert fed == [((5, 6, 7),), ((4,),), ((9, 8),)]  # the nearest first
    assert session.length == start + 3
    for tokens, result in zip((first, second, third), results, strict=True):
        [alone] = recorder.run(BeamCursor(session, start).feed([tokens]))
        assert_close(result.logits, alone.logits)


def test_a_long_text_is_spoken_ten_tokens_at_a_time(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    seconds = list[tuple[list[int], bool]]()
    end, recorder = network.config.tts_config.end_code, Recorder(runner)
    speech = SpeechContext(slot=1, capacity=160, end_code=end, settings=ANSWER_SPEECH)
    speaker = AnswerSpeech(speech, lambda codes, last: seconds.append((codes, last)))
    tokens = [5] * 25
    states = list(torch.zeros(len(tokens), network.config.hidden_size))
    recorder.run(speaker.speak_text(tokens, states))
    conditions = [step for step, _ in recorder.of(SpeechCondition)]
    spoken = [len(step.tokens) for step in conditions if not step.codes]  # the others are fed again
    assert spoken == [10, 10, 5]
    assert [last for _, last in seconds] == [False] * (len(seconds) - 1) + [True]
