"""Sampling of tokens and codes, compared with the recorded choices of the reference."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from transformers import TopKLogitsWarper, TopPLogitsWarper

from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import ANSWER_SPEECH
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    TIE_MARGIN,
    USUAL_TOP_K,
    CodeRow,
    RowSettings,
    SampledToken,
    Sampler,
    SamplingSettings,
    SpeechSettings,
    candidate_count,
    sample_codes,
    top_scores,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
    settings_table,
)
from support.minicpmo import golden_set
from support.minicpmo.step_recorder import choices_of, code_probabilities, row_of_case

PROBS = {"atol": 1e-5, "rtol": 0}


CPU = torch.device("cpu")


def row_settings(row: TokenRow) -> RowSettings:
    return RowSettings(*settings_table([row], CPU))


def said(row: TokenRow, logits: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros_like(logits, dtype=torch.bool)
    mask[:, list(row.recent)] = True
    return mask


@pytest.fixture
def sampler(tokenizer: Tokenizer) -> Any:
    return Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")


def test_every_recorded_choice_in_one_batch(sampler: Sampler) -> None:
    facts, want = golden_set.facts("e_sampling"), golden_set.tensors("e_sampling")
    cases = facts["cases"]
    rows = [row_of_case(case, slot) for slot, case in enumerate(cases)]
    logits = want["logits"][[case["logits_row"] for case in cases]]
    before = logits.clone()
    chosen = choices_of(sampler, logits, rows)
    assert torch.equal(logits, before)
    for case, one in zip(cases, chosen, strict=True):
        assert isinstance(one, SampledToken)
        assert one.token == case["returned"]
        grown = case["history"] + ([one.token] if one.recorded else [])
        assert grown == case["history_after"]


def test_final_probabilities(sampler: Sampler) -> None:
    facts, want = golden_set.facts("e_sampling"), golden_set.tensors("e_sampling")
    for case in facts["cases"]:
        n, row = case["case"], row_of_case(case)
        logits = want["logits"][case["logits_row"]][None]
        settings = row_settings(row)
        adjusted = sampler.adjust(logits, settings, said(row, logits))
        if f"case{n}.final_probs" in want:
            count = candidate_count(row.settings.top_k, logits.shape[1])
            ranked, order = sampler.probabilities(adjusted, settings, count)
            ours = torch.zeros_like(logits).scatter(1, order, ranked)[0]
            assert_close(ours, want[f"case{n}.final_probs"], **PROBS)
            assert torch.equal(ours == 0, want[f"case{n}.final_probs"] == 0)
        if f"case{n}.first_probs" in want:
            assert_close(logits.softmax(-1)[0], want[f"case{n}.first_probs"], **PROBS)
        if f"case{n}.final_logits" in want:
            assert_close(adjusted[0], want[f"case{n}.final_logits"], atol=5e-4, rtol=1e-4)


def test_a_row_does_not_depend_on_the_others(sampler: Sampler) -> None:
    cases = golden_set.facts("e_sampling")["cases"]
    logits = golden_set.tensors("e_sampling")["logits"]
    rows = [row_of_case(case, n, 0.1 * (n % 10)) for n, case in enumerate(cases)]
    together = choices_of(sampler, logits[[c["logits_row"] for c in cases]], rows)
    again = [row_of_case(case, 0, 0.1 * (n % 10)) for n, case in enumerate(cases)]
    alone = [
        choices_of(sampler, logits[c["logits_row"]][None], [row])[0]
        for c, row in zip(cases, again, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize("levels", [200, 10**6])
def test_a_few_candidates_equal_the_top_of_a_full_sort(levels: int) -> None:
    """Many equal scores, as bfloat16 produces them, or none."""
    generator = torch.Generator().manual_seed(levels)
    scores = torch.randint(0, levels, (3, 3000), generator=generator).float()
    ranked, order = top_scores(scores, 3000)
    count = candidate_count(20, 3000)
    assert count == USUAL_TOP_K + TIE_MARGIN
    fewer, ids = top_scores(scores, count)
    assert torch.equal(fewer, ranked[:, :count])
    kept = int((fewer >= fewer[:, 19:20]).sum(dim=-1).min())
    assert torch.equal(ids[:, :kept], order[:, :kept])


def test_top_k_keeps_ties_with_its_last(sampler: Sampler) -> None:
    logits = torch.zeros(2, 5000)
    logits[:, 100:] = -torch.arange(4900) * 1e-3
    logits[:, 200:230] = 3.0
    top_20, off = SamplingSettings(top_k=20, top_p=0.0), SamplingSettings(top_k=0, top_p=0.0)
    for setting, many in ((top_20, 30), (off, 5000)):
        settings = row_settings(TokenRow(setting, RecentTokens()))
        count = candidate_count(setting.top_k, 5000)
        chances, order = sampler.probabilities(logits[:1], settings, count)
        assert int((chances > 0).sum()) == many
        assert order[0, :30].tolist() == list(range(200, 230))


def test_draws_follow_the_probabilities(sampler: Sampler) -> None:
    case = golden_set.facts("e_sampling")["cases"][0]
    logits = golden_set.tensors("e_sampling")["logits"][[case["logits_row"]] * 1000]
    rows = [row_of_case(case, n, (n + 0.5) / 1000) for n in range(1000)]
    tokens = torch.tensor([one.token for one in choices_of(sampler, logits, rows)])  # type: ignore[union-attr]
    shares = torch.bincount(tokens, minlength=logits.shape[1]) / 1000
    assert_close(shares, golden_set.tensors("e_sampling")["case0.final_probs"], atol=2e-3, rtol=0)


def test_fixed_penalises_negative_logits_and_scales_listening(tokenizer: Tokenizer) -> None:
    fixed = Sampler(tokenizer.ids, tokenizer.forbidden, "fixed")
    logits = torch.full((1, len(tokenizer)), -1.0)
    logits[0, 20] = 2.0
    settings = SamplingSettings(repetition_penalty=2.0, listen_prob_scale=0.5)
    row = TokenRow(settings, RecentTokens([20, 21]))
    out = fixed.adjust(logits, row_settings(row), said(row, logits))[0]
    assert out[20] == 1.0
    assert out[21] == -2.0
    assert_close(out[tokenizer.ids.listen].exp(), torch.tensor(-1.0).exp() * 0.5)
    assert out[tokenizer.ids.eos] == -1.0


@pytest.mark.parametrize("chunk", range(5))
def test_speech_scores_and_codes(chunk: int) -> None:
    want, facts = golden_set.tensors("f_tts"), golden_set.facts("f_tts")["chunks"][chunk]
    draws = want[f"chunk{chunk}.forced_draws"].tolist()
    greedy = SpeechSettings(greedy=True)
    rows = [CodeRow(greedy, draws[:n], n >= facts["min_new_tokens"]) for n in range(len(draws))]
    chances = code_probabilities(want[f"chunk{chunk}.raw_logits"], rows)
    assert_close(chances, want[f"chunk{chunk}.scores"], **PROBS)
    assert torch.equal(chances == 0, want[f"chunk{chunk}.scores"] == 0)
    codes = sample_codes(want[f"chunk{chunk}.raw_logits"], rows)
    assert codes.tolist() == want[f"chunk{chunk}.scores"].argmax(-1).tolist()


@pytest.mark.parametrize("width", [100, 3000])
@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize(
    "settings",
    [ANSWER_SPEECH, replace(ANSWER_SPEECH, top_k=0), replace(ANSWER_SPEECH, top_p=0.0, top_k=200)],
    ids=["answer", "top_p", "top_k"],
)
def test_codes_of_answers_are_restricted_as_in_transformers(
    width: int, spread: float, settings: SpeechSettings
) -> None:
    """For any spread of the scores: one of top-k, top-p and the minimum of three decides.
    The codes of units in the same batch do not change by a bit.
    """
    noise = torch.Generator().manual_seed(0)
    logits = spread * torch.randn(20, width, generator=noise)
    said = torch.randint(width, (20, 24), generator=noise)
    scores = logits / 0.8
    factors = 1.05 ** torch.stack([(said[:, -16:] == code).sum(1) for code in range(width)], dim=1)
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    unit, warpers = scores.softmax(dim=-1), list[Any]()
    if settings.top_p:
        warpers.append(TopPLogitsWarper(settings.top_p, min_tokens_to_keep=3))
    if settings.top_k:
        warpers.append(TopKLogitsWarper(settings.top_k, min_tokens_to_keep=3))
    for warper in warpers:
        scores = warper(said, scores)
    rows = [CodeRow(settings, codes, may_end=True) for codes in said.tolist()]
    got = code_probabilities(logits, rows)
    assert_close(got, scores.softmax(dim=-1), **PROBS)
    assert torch.equal(got == 0, scores.softmax(dim=-1) == 0)
    plain = [CodeRow(SpeechSettings(), row.codes, may_end=True) for row in rows]
    mixed = code_probabilities(logits, [*rows[:10], *plain[10:]])
    alone = code_probabilities(logits, plain)
    assert_close(alone, unit, **PROBS)
    assert torch.equal(mixed[10:], alone[10:])
    assert torch.equal(mixed[:10], got[:10])
