"""Another tiny checkpoint: random weights of a seed, other sizes and another vocabulary."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.load import build_on_meta
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SampledToken, Sampler
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EngineStep, Feed
from support.minicpmo.step_recorder import adjusted, play, row_of

DROPPED_MERGES = 12
"""The last merges of the vocabulary are dropped, so the ids of all special tokens move."""

SIZES: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 160,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "num_hidden_layers": 2,
    "vision_config": {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3},
    "audio_config": {
        "d_model": 48,
        "encoder_layers": 3,
        "encoder_attention_heads": 3,
        "encoder_ffn_dim": 192,
    },
    "tts_config": {
        "llm_dim": 384,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_audio_tokens": 90,
    },
}

MARGIN = 4.0
"""The logit of a planned special token is so much above that of all others, and others so much below."""

HEAD = "llm.lm_head.weight"

Ids = dict[int, int]
"""Ids of the recorded vocabulary to ids of the other one; those of dropped tokens are absent."""

Plot = list[list[int | None]]
"""For each unit the special tokens that are drawn; None for any other token."""


def write_tokenizer(source: Path, target: Path) -> Ids:
    """The tokenizer of `source` without its last merges."""
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    settings = json.loads((source / "tokenizer_config.json").read_text())
    model, merges = tokenizer["model"], tokenizer["model"]["merges"]
    gone = {"".join(pair) for pair in merges[-DROPPED_MERGES:]}
    model["merges"] = merges[:-DROPPED_MERGES]
    left = sorted((old, token) for token, old in model["vocab"].items() if token not in gone)
    ids = {old: new for new, (old, _) in enumerate(left)}
    model["vocab"] = {token: ids[old] for old, token in left}
    for token in tokenizer["added_tokens"]:
        ids[token["id"]] = token["id"] = token["id"] - len(gone)
    added = settings["added_tokens_decoder"].items()
    settings["added_tokens_decoder"] = {str(ids[int(old)]): token for old, token in added}
    settings["bad_token_ids"] = [ids[old] for old in settings["bad_token_ids"] if old in ids]
    (target / "tokenizer.json").write_text(json.dumps(tokenizer))
    (target / "tokenizer_config.json").write_text(json.dumps(settings))
    return ids


def write_config(source: Path, target: Path, ids: Ids) -> ModelConfig:
    config = json.loads((source / "config.json").read_text())
    for name, value in SIZES.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    config["vocab_size"] = len(ids)
    for name in ("bos_token_id", "eos_token_id"):
        config[name] = ids[config[name]]
    (target / "config.json").write_text(json.dumps(config))
    return ModelConfig.model_validate(config)


def random_weights(config: ModelConfig, source: Path, seed: int) -> dict[str, Tensor]:
    """Distributed as the weights of the same name in `source`, matrices by their number of inputs."""
    like, noise = load_file(source / "model.safetensors"), torch.Generator().manual_seed(seed)
    weights = {}
    for name, tensor in build_on_meta(config).state_dict().items():
        alike = like[re.sub(r"layers\.\d+", "layers.1", name)]
        spread = float(alike.std())
        if tensor.ndim == 2 and ".emb" not in name and "position" not in name:
            spread *= (alike.shape[-1] / tensor.shape[-1]) ** 0.5
        drawn = torch.randn(tensor.shape, generator=noise)
        weights[name] = drawn * spread + float(alike.mean())
    return weights


def plot_of(units: Sequence[Any], ids: Ids, first_special: int) -> Plot:
    """What the units of a recorded session decided, as a plan for another checkpoint."""
    return [
        [ids[token] if token >= first_special else None for token in unit["decode_returned_ids"]]
        for unit in units
    ]


class PlottedRunner:
    """A runner whose draws follow a plot; `states` are the hidden states and the tokens drawn after them."""

    def __init__(
        self, runner: ModelRunner, sampler: Sampler, special: Sequence[int], plot: Plot
    ) -> None:
        self.network, self.states = runner.network, list[tuple[Tensor, int]]()
        self._runner, self._sampler, self._special, self._plot = (
            runner,
            sampler,
            list(special),
            plot,
        )
        self._hidden = torch.zeros(0)
        self.unit = 0

    def run(self, steps: Sequence[EngineStep]) -> list[Any]:
        [answer], [step] = self._runner.run(steps), steps
        if isinstance(step, Feed):
            self._hidden = answer.hidden
        row = row_of(step)
        if row is None:
            return [answer]
        plan = self._plot[self.unit]
        token = plan.pop(0) if plan else None
        if token is None:
            logits = answer.logits if isinstance(step, Feed) else step.logits
            scores = adjusted(self._sampler, logits, row, list(row.recent))
            scores[self._special] = float("-inf")
            token = int(scores.argmax())
        self.states.append((self._hidden, token))
        drawn = SampledToken(token, recorded=token != self._sampler.ids.chunk_eos)
        return [replace(answer, drawn=drawn) if isinstance(step, Feed) else drawn]


def fitted_head(network: MiniCPMO, tokenizer: Tokenizer, plots: dict[str, Plot]) -> Tensor:
    """The head with rows of special tokens by which the recorded sessions follow their plots."""
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    specials = {token for token in range(len(tokenizer)) if not tokenizer.plain([token])}
    able = sorted(specials - set(tokenizer.forbidden) | {tokenizer.ids.chunk_eos})
    runner = ModelRunner(network, sampler, slots=2, context=512, speech_context=256, invariant=True)
    states = list[tuple[Tensor, int]]()
    for name, plot in plots.items():
        plotted = PlottedRunner(runner, sampler, able, [list(unit) for unit in plot])

        def next_unit(*_: Any, plotted: PlottedRunner = plotted) -> None:
            plotted.unit += 1

        play(network, tokenizer, plotted, name, next_unit)
        states += plotted.states
    head = network.llm.lm_head.weight.clone()
    hidden = torch.stack([state for state, _ in states]).double()
    others = hidden @ head.double().T
    others[:, able] = float("-inf")
    best = others.amax(dim=1, keepdim=True)
    goals = (best - MARGIN).expand(-1, len(able)).clone()
    for n, (_, token) in enumerate(states):
        if token in able:
            goals[n, able.index(token)] = best[n] + MARGIN
    gram = hidden @ hidden.T
    gram += 1e-4 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    head[able] = (hidden.T @ torch.linalg.solve(gram, goals)).T.float()
    return head
