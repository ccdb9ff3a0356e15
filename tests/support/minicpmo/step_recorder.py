"""Settings of the recorded sessions, and a way to run their generators without an engine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, Fidelity
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    EngineStep,
    Feed,
    SampledToken,
    SampleToken,
    SamplingSettings,
    SpeechSettings,
    Steps,
    TokenRow,
)
from antiphon.inference_worker.engines.minicpmo.sessions.context import AudioInput
from antiphon.inference_worker.engines.minicpmo.sessions.duplex import DuplexConversation
from antiphon.inference_worker.engines.minicpmo.sessions.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.sessions.turns import TurnConversation
from antiphon.shared_schemas.config import DuplexConfig

GREEDY = SamplingSettings(greedy=True, repetition_penalty=1.02)


class RecordedDraws(random.Random):
    """The recorded draws, each in the middle of the interval of its token or code."""

    def __init__(self, recorded: list[float]) -> None:
        super().__init__()
        self.left = list(recorded)

    def random(self) -> float:
        return self.left.pop(0) if self.left else 0.5  # a greedy choice draws nothing


@dataclass(frozen=True)
class Draw:
    """A token that was drawn from `logits`; `recent` are the tokens that the penalty counted."""

    logits: Tensor
    row: TokenRow
    recent: list[int]
    token: SampledToken


class Recorder:
    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.steps: list[EngineStep] = []
        self.answers: list[Any] = []
        self.draws: list[Draw] = []

    def run(self, work: Steps[Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value
            row = _row_of(step)
            recent = list(row.recent) if row is not None else []
            [answer] = self.runner.run([step])
            self.steps.append(step)
            self.answers.append(answer)
            if row is not None:
                logits, token = (
                    (step.logits, answer)
                    if isinstance(step, SampleToken)
                    else (answer.logits, answer.drawn)
                )
                self.draws.append(Draw(logits, row, recent, token))

    def of(self, kind: type[EngineStep]) -> list[tuple[Any, Any]]:
        pairs = zip(self.steps, self.answers, strict=True)
        return [(step, answer) for step, answer in pairs if type(step) is kind]


def _row_of(step: EngineStep) -> TokenRow | None:
    match step:
        case SampleToken():
            return step.row
        case Feed():
            return step.draw
        case _:
            return None


@contextmanager
def head_rows(network: MiniCPMO, rows: dict[str, int]) -> Iterator[None]:
    """The reference wrote with these rows of the head replaced, so that answers end."""
    weight = network.llm.lm_head.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            for row, other in rows.items():
                weight[int(row)] = kept[other]
        yield
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def sampling_of(spec: Any, **changed: Any) -> SamplingSettings:
    g = spec["generate_kwargs"] | changed
    return SamplingSettings(
        greedy=True,
        listen_prob_scale=g["listen_prob_scale"],
        listen_top_k=g["listen_top_k"],
        repetition_penalty=g["text_repetition_penalty"],
        length_penalty=g["length_penalty"],
    )


def config_of(spec: Any, **changed: Any) -> DuplexConfig:
    g = spec["generate_kwargs"] | changed
    return DuplexConfig(
        ls_mode=spec["duplex_kwargs"].get("ls_mode", "explicit"),
        max_new_speak_tokens_per_chunk=g["max_new_speak_tokens_per_chunk"],
        text_repetition_window_size=g["text_repetition_window_size"],
        force_listen_count=spec["duplex_kwargs"].get("force_listen_count", 0),
    )


def new_session(
    network: MiniCPMO,
    tokenizer: Tokenizer,
    spec: Any,
    slot: int = 1,
    fidelity: Fidelity = "upstream",
    **changed: Any,
) -> Any:
    """A conversation at the settings of `spec`; `changed` are fields of its DuplexConfig."""
    tts, d = network.config.tts_config, spec["duplex_kwargs"]
    session = DuplexConversation(
        slot,
        tokenizer,
        AudioInput(slot=slot, capacity=network.config.audio_config.max_source_positions),
        SpeechContext(
            slot=slot, capacity=256, end_code=tts.end_code, settings=SpeechSettings(greedy=True)
        ),
        config=config_of(spec).model_copy(update=changed),
        options=EngineOptions(
            context_tokens=512,
            fidelity=fidelity,
            window=d.get("sliding_window_mode", "off"),
            basic_high_tokens=d.get("basic_window_high_tokens", 4000),
            basic_low_tokens=d.get("basic_window_low_tokens", 3500),
            context_max_units=d.get("context_max_units", 24),
            context_previous_max_tokens=d.get("context_previous_max_tokens", 500),
        ),
    )
    session.sampling = sampling_of(spec)
    return session


def session_of(tokenizer: Tokenizer, capacity: int = 512) -> TurnConversation:
    return TurnConversation(1, tokenizer, capacity=capacity)
