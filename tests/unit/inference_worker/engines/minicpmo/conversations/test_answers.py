"""Written and spoken answers, compared with the tokens and codes of the reference."""

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    MAX_CONDITION_CODES,
    AnswerSpeech,
    SpeechContext,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import penalised
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    DecodeCodes,
    DecodeSpeech,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import (
    SILENT_PREFIX,
    next_pieces,
)
from antiphon.inference_worker.engines.minicpmo.views.answering import (
    SpokenCodes,
    answer_sampling,
)
from antiphon.shared_schemas.config import GenerationConfig
from support.minicpmo import golden_set
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import GREEDY, RecordedDraws, Recorder, head_rows, session_of

FACTS = golden_set.facts_if_recorded("i_answers")


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, speech_context=1024, invariant=True)


def collector(seconds: list[SpokenCodes]) -> Callable[[list[int], bool], None]:
    return lambda codes, last: seconds.append((codes, last))


def codes_by_condition(recorder: Recorder, end: int) -> list[dict[str, Any]]:
    spoken: list[dict[str, Any]] = []
    for step, answer in zip(recorder.steps, recorder.answers, strict=True):
        if isinstance(step, SpeechCondition):
            told = {"tokens": len(step.tokens), "text_finished": step.text_ends}
            spoken.append({**told, "condition_len": len(answer), "codes": []})
        elif isinstance(step, DecodeSpeech | DecodeCodes):
            codes = answer if isinstance(answer, list) else [answer]
            codes = [*spoken[-1]["codes"], *codes[: codes.index(end) if end in codes else None]]
            spoken[-1]["codes"] = codes[:MAX_CONDITION_CODES]
    return spoken


@pytest.mark.parametrize("name", sorted(FACTS))
def test_answers_of_the_reference(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner, name: str
) -> None:
    facts, end = FACTS[name], network.config.tts_config.end_code
    settings, audio = facts["settings"], facts["settings"]["generate_audio"]
    session, limit = session_of(tokenizer), settings["max_new_tokens"]
    generation = GenerationConfig(
        length_penalty=settings["length_penalty"],
        temperature=0.7 if settings.get("do_sample", True) else 0.0,
    )
    Recorder(runner).run(session.system([facts["system"]]))
    for turn in facts["turns"]:
        assert session._opening + turn["question"] == turn["prompt"]
        recorder, seconds = Recorder(runner), list[SpokenCodes]()
        speech = SpeechContext(
            slot=1,
            capacity=1024,
            end_code=end,
            settings=ANSWER_SPEECH,
            rng=RecordedDraws(turn["code_draws"]),
        )
        session._rng = RecordedDraws(turn["text_draws"])
        speaker = AnswerSpeech(speech, collector(seconds)) if audio else None
        with head_rows(network, facts["head_rows"]):
            recorder.run(session.user([turn["question"]]))
            assert session.length == turn["kv_before"]
            recorder.run(session.open_answer())
            sampling = answer_sampling(generation, spoken=audio)
            answer = recorder.run(session.generate(sampling, limit, speech=speaker))
        assert session.length == turn["kv_after"]
        assert answer.cut == (not turn["finished"])
        assert list(answer.tokens) == turn["tokens"][:limit]
        for written, draw in enumerate(recorder.draws):
            assert draw.recent == list(penalised(answer.tokens[:written]))
        assert codes_by_condition(recorder, end) == turn.get("conditions", [])
        assert vocoder_calls(seconds) == turn.get("vocoder", [])


def vocoder_calls(seconds: list[SpokenCodes]) -> list[dict[str, Any]]:
    waiting, calls = list(SILENT_PREFIX), []
    for codes, last in seconds:
        waiting += codes
        calls += next_pieces(waiting, 3, last=last, whole=True)
    return [{"codes": len(codes), "last": last} for codes, last in calls]


def test_the_repetition_penalty_counts_whole_groups() -> None:
    written = list(range(300))
    assert penalised([]) == ()
    assert penalised(written[:10]) == tuple(range(10))
    assert penalised(written[:11]) == tuple(range(11))
    assert penalised(written[:140]) == tuple(range(3, 140))
    assert penalised(written[:141]) == tuple(range(13, 141))


def room(speech: SpeechContext) -> int:
    """After a condition of 11 rows, without speech that would be fed again."""
    with pytest.raises(StopIteration) as end:
        next(speech.make_room(11))
    found: int = end.value.value
    return found


def test_a_speech_context_that_is_full_begins_again() -> None:
    speech = SpeechContext(slot=1, capacity=2048, end_code=9, settings=ANSWER_SPEECH)
    assert room(speech) == MAX_CONDITION_CODES
    speech.position = 2048 - MAX_CONDITION_CODES - 11
    assert room(speech) == MAX_CONDITION_CODES
    assert speech.position > 0
    speech.position += 1
    assert room(speech) == MAX_CONDITION_CODES
    assert speech.position == 0
    small = SpeechContext(slot=1, capacity=64, end_code=9, settings=ANSWER_SPEECH)
    assert room(small) == 53


def test_an_interrupted_answer_draws_no_more_codes(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    """The codes that exist are synthesized."""
    session, recorder = session_of(tokenizer), Recorder(runner)
    seconds = list[SpokenCodes]()
    speech = SpeechContext(
        slot=1, capacity=1024, end_code=network.config.tts_config.end_code, settings=ANSWER_SPEECH
    )

    def stopped() -> bool:
        return len(recorder.of(DecodeCodes)) == 2

    recorder.run(session.user(["hello the world"]))
    recorder.run(session.open_answer())
    speaker = AnswerSpeech(speech, collector(seconds), stopped)
    speech.end_code = -1  # the model does not end by itself
    recorder.run(session.generate(GREEDY, 40, stopped=stopped, speech=speaker))
    [(codes, last)] = seconds
    assert (len(codes), last) == (1 + 2 * CODES_PER_STEP, True)
    assert len(recorder.of(DecodeCodes)) == 2
    assert speech.position == 0
