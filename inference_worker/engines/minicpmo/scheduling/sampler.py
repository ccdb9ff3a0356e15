"""How text tokens and audio codes are chosen: settings, and the rules of the reference for all sessions.

Tokens, the candidates of a beam search, and codes follow each other. `token_choice.py` and `code_decoder.py`
run these rules in CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Fidelity
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import bucket
from antiphon.inference_worker.engines.types import EngineError

NEVER = float("-inf")
MIN_CANDIDATES = 3
"""Tokens and codes that top-k and top-p retain in any case: one of them does not end the answer."""

ANY_RANK = 2**24
USUAL_TOP_K = 128
TIE_MARGIN = 64
"""Candidates beyond top_k, for ids that tie with the last one. More ties are ignored."""


BEAMS = 3
CANDIDATES = 9
"""Continuations per step of a beam search: a beam may end in two ways, and three have to continue."""

RankedTokens = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]
"""Scores and ids (beams, n) of the tokens that may follow each beam, in falling order of the scores.
The score of a token that may not is -inf.
"""

PENALTY_CODES = 16
"""Recent codes that the repetition penalty of speech counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """Sampling settings of a session. 0 disables `top_k` and `top_p`.

    `speakable`: a written answer has no tokens that cannot be spoken.
    """

    greedy: bool = False
    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    listen_prob_scale: float = 1.0
    listen_top_k: int | None = None
    repetition_penalty: float = 1.05
    length_penalty: float = 1.1
    speakable: bool = False


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token, and whether it is added to the history."""

    token: int
    recorded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """Sampling settings of audio codes. 0 disables `top_k` and `top_p`."""

    greedy: bool = False
    temperature: float = 0.8
    repetition_penalty: float = 1.05
    top_k: int = 0
    top_p: float = 0.0


@dataclass(frozen=True, slots=True)
class CodeRow:
    """Input of one draw: settings, the codes that the repetition penalty counts, whether the end may
    be drawn, and a uniform draw. Without codes, `top_k` and `top_p` do not apply.
    """

    settings: SpeechSettings
    codes: Sequence[int]
    may_end: bool
    draw: float = 0.0


class Sampler:
    """The reference's order of operations. Each row is independent of the others.

    `fidelity="fixed"` differs in two places. The repetition penalty lowers a negative logit instead
    of raising it, and listen_prob_scale scales the probability of `<|listen|>` (upstream scales the
    logit of `<|im_end|>`).

    A written answer has no units, and no choice to listen: only repetition penalty, temperature,
    top-k and top-p apply, and the length penalty to the tokens that end the answer. If it is spoken,
    it has no characters that cannot be spoken.
    """

    def __init__(
        self,
        ids: SpecialIds,
        forbidden: Sequence[int],
        fidelity: Fidelity,
        *,
        written: bool = False,
    ) -> None:
        self.ids = ids
        self._written = written
        self._ends = ids.answer_ends if written else (ids.turn_eos,)
        self._forbidden = sorted({*forbidden, *(() if written else (ids.chunk_eos,))})
        self._fixed = fidelity == "fixed"
        self._forbidden_ids: Tensor | None = None

    def for_answers(self) -> Sampler:
        """The sampler of written answers, which uses the reference's rules in each fidelity."""
        return Sampler(self.ids, self.ids.unspeakable, "fixed", written=True)

    def choose(self, logits: Tensor, settings: Tensor, said: Tensor, candidates: int) -> Tensor:
        """Choose a token for each row of `logits` (rows, vocabulary), without the host: a table (4, rows).

        Its columns: is the row finite, did `<|chunk_eos|>` or the choice to listen come first, and the
        token. `settings` are those of `settings_table`, `said` (rows, vocabulary) the tokens that the
        penalty applies to, and `candidates` the number of top scores that a draw may need.
        """
        row, sound = RowSettings(*settings), logits.isfinite().all(dim=-1)
        logits = logits.nan_to_num()
        adjusted = self.adjust(logits, row, said)
        if self._written:
            early = cut = torch.zeros_like(sound)
        else:
            early, cut = self._early_end(logits, row), self._listen_cut(adjusted, row)
        chances, order = self.probabilities(adjusted, row, candidates)
        drawn = order.gather(1, draw_index(chances, row.last_draw)[:, None])[:, 0]
        tokens = torch.where(row.greedy > 0, adjusted.argmax(dim=-1), drawn)
        return torch.stack([sound.long(), early.long(), cut.long(), tokens])

    def read(
        self, table: Sequence[Sequence[int]], rows: Sequence[Any]
    ) -> list[SampledToken | EngineError]:
        """The tokens of `rows`; the table may be longer. An exception for a row that is not finite."""
        columns = zip(rows, *table, strict=False)
        return [self._sampled(*rest) if ok else not_finite_error() for _, ok, *rest in columns]

    def adjust(self, logits: Tensor, settings: RowSettings, said: Tensor) -> Tensor:
        """Apply forbidden ids, repetition penalty, length penalty and listen scale, (rows, vocabulary)."""
        out = self._penalise_repetition(self._forbid(logits, settings), settings, said)
        penalty = settings.length_penalty
        for end in self._ends:
            out[:, end] = torch.where(out[:, end] > 0, out[:, end] / penalty, out[:, end] * penalty)
        if self._written:
            return out
        if self._fixed:
            out[:, self.ids.listen] += settings.listen_prob_scale.log()
        else:
            out[:, self.ids.eos] *= settings.listen_prob_scale
        return out

    def probabilities(
        self, adjusted: Tensor, settings: RowSettings, candidates: int
    ) -> tuple[Tensor, Tensor]:
        """The distribution of the final draw: probabilities in falling order, and their ids."""
        ranked, order = top_scores(adjusted / settings.temperature[:, None], candidates)
        last = settings.last_candidate.clamp(max=candidates - 1).long()
        threshold = ranked.gather(1, last[:, None])
        ranked = ranked.masked_fill(ranked < threshold, NEVER)
        mass = ranked.softmax(dim=-1)
        limit = settings.top_p[:, None]
        above = torch.zeros_like(mass)
        above[:, 1:] = mass.cumsum(dim=-1)[:, :-1]
        return ranked.masked_fill(above > limit, NEVER).softmax(dim=-1), order

    def _early_end(self, logits: Tensor, settings: RowSettings) -> Tensor:
        """Whether the raw logits choose `<|chunk_eos|>`; the rest is then skipped."""
        chance = logits.softmax(dim=-1)[:, self.ids.chunk_eos]
        best = logits.argmax(dim=-1) == self.ids.chunk_eos
        return torch.where(settings.greedy > 0, best, settings.first_draw < chance)

    def _forbid(self, logits: Tensor, settings: RowSettings) -> Tensor:
        if self._forbidden_ids is None:
            self._forbidden_ids = device_tensor(self._forbidden, logits.device)
        allowed = logits.index_fill(1, self._forbidden_ids, NEVER)
        if not self._written:
            return allowed
        return torch.where(settings.speakable[:, None] > 0, allowed, logits)

    def _penalise_repetition(self, out: Tensor, settings: RowSettings, said: Tensor) -> Tensor:
        penalty = settings.repetition_penalty[:, None]
        lowered = out / penalty
        if self._fixed:
            lowered = torch.where(out > 0, lowered, out * penalty)
        return torch.where(said, lowered, out)

    def _listen_cut(self, adjusted: Tensor, settings: RowSettings) -> Tensor:
        ranks = (adjusted > adjusted[:, self.ids.eos, None]).sum(dim=-1)
        return ranks < settings.listen_top_k

    def _sampled(self, early: int, cut: int, token: int) -> SampledToken:
        if early:
            return SampledToken(self.ids.chunk_eos, recorded=False)
        if cut:
            return SampledToken(self.ids.eos, recorded=False)
        return SampledToken(token, recorded=True)


class RowSettings(NamedTuple):
    """The settings and draws of all rows, (rows,) each.

    `greedy` and `speakable` are 1 or 0. `last_candidate` is the rank of the last token that top-k
    retains; it may exceed the candidates. `top_p` is above 1 if it is off.
    """

    greedy: Tensor
    temperature: Tensor
    last_candidate: Tensor
    top_p: Tensor
    listen_prob_scale: Tensor
    listen_top_k: Tensor
    repetition_penalty: Tensor
    length_penalty: Tensor
    speakable: Tensor
    first_draw: Tensor
    last_draw: Tensor


def draw_index(chances: Tensor, draws: Tensor) -> Tensor:
    """The index in each row of `chances` (rows, n) at which the cumulative sum passes the draw."""
    sums = chances.cumsum(dim=-1)
    goal = draws[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, goal, right=True)[:, 0]
    last = (chances > 0).long().cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(index, last)


def not_finite_error() -> EngineError:
    """The exception of a session whose logits are not finite."""
    return EngineError("the model produced values that are not finite for this session")


def candidate_count(top_k: int, vocabulary: int) -> int:
    """How many of the top ids a draw with `top_k` (0 is off) may need. The usual values of `top_k` have
    the same count, so that they share a batch.
    """
    return min(vocabulary, max(USUAL_TOP_K, bucket(top_k)) + TIE_MARGIN) if top_k else vocabulary


def top_scores(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row in falling order, and their ids: (rows, count).

    Ties are ordered by id. This avoids a sort of the whole vocabulary for each token.
    """
    if count == scores.shape[1]:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        return ranked, order
    _, found = scores.topk(count, dim=-1, sorted=False)
    ids = found.sort(dim=-1).values
    ranked, places = scores.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return ranked, ids.gather(1, places)


def rank_tokens(
    logits: Tensor, written: Sequence[Sequence[int]], settings: SamplingSettings
) -> RankedTokens | EngineError:
    """Log-probabilities of the best tokens of each row of `logits` (beams, vocabulary), after the
    repetition penalty of the tokens in `written`; if not greedy, also temperature, top-k and top-p.
    """
    scores = _penalised(logits.log_softmax(dim=-1), written, settings.repetition_penalty)
    if settings.greedy:
        ranked, order = top_scores(scores, CANDIDATES)
    else:
        ranked, order = _restricted(scores / settings.temperature, settings)
    # The only point where the host waits for the device. Ids are exact in float64.
    table = torch.stack([ranked.double(), order.double()]).cpu().numpy()
    if np.isnan(table[0]).any():
        return not_finite_error()
    return table[0], table[1].astype(np.int64)


def _penalised(scores: Tensor, written: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """A log-probability is never positive, so the penalty multiplies."""
    vocabulary = scores.shape[1]
    places = [row * vocabulary + token for row, said in enumerate(written) for token in set(said)]
    if not places:
        return scores
    said = torch.zeros_like(scores, dtype=torch.bool)
    said.view(-1)[device_tensor(places, scores.device)] = True
    return torch.where(said, scores * penalty, scores)


def _restricted(scores: Tensor, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
    vocabulary = scores.shape[1]
    top_k = max(settings.top_k, MIN_CANDIDATES) if settings.top_k else vocabulary
    ranked, order = top_scores(scores, candidate_count(settings.top_k and top_k, vocabulary))
    if top_k < vocabulary:
        ranked = ranked.masked_fill(ranked < ranked[:, top_k - 1, None], NEVER)
    if 0 < settings.top_p < 1:
        # The share of a token and of all less likely ones.
        rest = ranked.softmax(dim=-1).flip(-1).cumsum(dim=-1).flip(-1)
        rare = rest <= 1 - settings.top_p
        rare[:, :MIN_CANDIDATES] = False
        ranked = ranked.masked_fill(rare, NEVER)
    return ranked, order


class CodeSettings(NamedTuple):
    """The settings of all rows, (rows,) each, and `powers` (rows, n) of the repetition penalty.

    `held` is the number of draws in which the end cannot be drawn. `dropped` is the share of the least
    likely codes that top-p drops, -1 for none.
    """

    temperature: Tensor
    held: Tensor
    greedy: Tensor
    draw: Tensor
    top_k: Tensor
    dropped: Tensor
    powers: Tensor

    @classmethod
    def of(cls, table: Tensor) -> CodeSettings:
        """From a table with the columns of `code_numbers`."""
        single = len(cls._fields) - 1
        return cls._make((*table[:, :single].unbind(1), table[:, single:]))


def _chances(
    logits: Tensor, settings: CodeSettings, recent: Tensor, candidates: int, drawn: int = 0
) -> Tensor:
    """`recent` are the codes that the penalty counts, padded with the number of codes. `candidates` is the
    number of top scores that top-k and top-p may need, 0 if they are off; `drawn` codes were drawn with
    these settings before.
    """
    scores = logits / settings.temperature[:, None]
    width = scores.shape[1]
    counts = torch.zeros(len(scores), width + 1, dtype=torch.long, device=scores.device)
    counts.scatter_add_(1, recent, torch.ones_like(recent))
    factors = settings.powers.gather(1, counts[:, :width])
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    if candidates:
        scores = _restrict(scores, settings.top_k, settings.dropped, candidates)
    scores[:, -1] = scores[:, -1].masked_fill(settings.held > drawn, NEVER)
    return scores.softmax(dim=-1)


def code_tables(rows: Sequence[CodeRow], codes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The CodeSettings of one draw for each row, as a table (rows, n), and the codes (rows, n) that the
    penalty counts.
    """
    numbers = [n for row in rows for n in code_numbers(row, not row.may_end, row.draw, codes)]
    counted = [code for row in rows for code in recent_codes(row, codes)]
    table = device_tensor(numbers, device, torch.float32).view(len(rows), -1)
    return table, device_tensor(counted, device).view(len(rows), -1)


def recent_codes(row: CodeRow, codes: int) -> list[int]:
    """The codes that the penalty counts, padded with the number of `codes`."""
    counted = list(row.codes[-PENALTY_CODES:])
    return [codes] * (PENALTY_CODES - len(counted)) + counted


def code_numbers(row: CodeRow, held: int, draw: float, codes: int) -> tuple[float, ...]:
    """The CodeSettings of a row."""
    settings = row.settings
    limits, powers = _limits(row, codes), _powers(settings.repetition_penalty)
    return (settings.temperature, held, settings.greedy, draw, *limits, *powers)


def code_candidates(row: CodeRow, codes: int) -> int:
    """How many of the top codes a draw needs; 0 for a row without top-k and top-p."""
    if not _is_restricted(row):
        return 0
    top_k = row.settings.top_k
    return candidate_count(max(top_k, MIN_CANDIDATES) if top_k else 0, codes)


def _is_restricted(row: CodeRow) -> bool:
    return len(row.codes) > 0 and bool(row.settings.top_k or row.settings.top_p)


def _limits(row: CodeRow, count: int) -> tuple[int, float]:
    """The number of candidates, and the share of the least likely codes that are dropped (-1: none)."""
    if not _is_restricted(row):
        return count, -1.0
    top_k, top_p = row.settings.top_k or count, row.settings.top_p
    return min(count, max(top_k, MIN_CANDIDATES)), 1 - top_p if top_p else -1.0


def _restrict(scores: Tensor, top_k: Tensor, dropped: Tensor, candidates: int) -> Tensor:
    """Top-p, then top-k, as transformers applies them: codes of equal score are retained together.

    transformers sorts all codes. Here the top `candidates` are sorted, and the others count as a sum.
    """
    count = scores.shape[1]
    found = scores.topk(candidates, dim=-1, sorted=False).indices
    # Of equal scores, the code with the higher id is the higher one, as in a stable sort.
    ids = found.sort(dim=-1).values
    ranked, places = scores.gather(1, ids).sort(dim=-1, stable=True)
    chances = scores.softmax(dim=-1).gather(1, ids.gather(1, places))
    below = chances.cumsum(dim=-1) + (1 - chances.sum(dim=-1, keepdim=True))
    rare = below <= dropped[:, None]
    rare[:, candidates - MIN_CANDIDATES :] = False
    least = ranked.gather(1, (candidates - top_k).clamp(min=0).long()[:, None])
    kept = ranked.masked_fill(rare | (ranked < least), NEVER)
    only_kept = torch.full_like(scores, NEVER).scatter(1, ids.gather(1, places), kept)
    return torch.where((top_k < count)[:, None] | (dropped >= 0)[:, None], only_kept, scores)


@lru_cache(maxsize=1024)
def _powers(penalty: float) -> tuple[float, ...]:
    """Computed on the host: on the device, their last bit could depend on the other rows."""
    return tuple(penalty**n for n in range(PENALTY_CODES + 1))


def sample_codes(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """One code per row; -1 for a row that is not finite."""
    width = logits.shape[1]
    table, recent = code_tables(rows, width, logits.device)
    settings = CodeSettings.of(table)
    candidates = max(code_candidates(row, width) for row in rows)
    return draw_codes(logits, settings, recent, settings.draw, candidates)


def draw_codes(
    logits: Tensor,
    settings: CodeSettings,
    recent: Tensor,
    draws: Tensor,
    candidates: int,
    drawn: int = 0,
) -> Tensor:
    """One code per row without the host; -1 for a row that is not finite. See `_chances`."""
    sound = logits.isfinite().all(dim=-1)
    chances = _chances(logits.nan_to_num(), settings, recent, candidates, drawn)
    codes = torch.where(settings.greedy > 0, chances.argmax(dim=-1), draw_index(chances, draws))
    return torch.where(sound, codes, -1)
