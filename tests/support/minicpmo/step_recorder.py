"""Settings of the recorded sessions, and a way to run their generators without an engine."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import (
    EngineOptions,
    Fidelity,
    SliceConfig,
)
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import DuplexConversation
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import AudioInput
from antiphon.inference_worker.engines.minicpmo.conversations.turns import TurnConversation
from antiphon.inference_worker.engines.minicpmo.model.audio import trim_redundant
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow, SlottedCache
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import MelStream, clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    CodeSettings,
    RowSettings,
    SampledToken,
    Sampler,
    SamplingSettings,
    SpeechSettings,
    _chances,
    code_candidates,
    code_tables,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeCodes,
    DecodeSpeech,
    EngineStep,
    Feed,
    SampleToken,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenChoice,
    TokenRow,
    settings_table,
)
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import DuplexConfig
from support.minicpmo import golden_set

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
    def __init__(self, runner: ModelRunner) -> None:
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
            row = row_of(step)
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

    def embeds(self, feeds: Sequence[Feed]) -> tuple[list[int], Tensor]:
        """The ids of feeds, with a filler for embeddings, and the embeddings (n, width) that were fed."""
        network, ids, parts = self.runner.network, list[int](), list[Tensor]()
        filler = golden_set.facts("tokenizer")["special"]["<unk>"]
        for piece in (piece for feed in feeds for piece in feed.pieces):
            is_text = isinstance(piece, tuple)
            ids += piece if is_text else [filler] * len(piece)
            parts.append(
                network.llm.model.embed_tokens(torch.tensor(piece, dtype=torch.long))
                if is_text
                else piece
            )
        return ids, torch.cat(parts)

    def of(self, kind: type[EngineStep]) -> list[tuple[Any, Any]]:
        pairs = zip(self.steps, self.answers, strict=True)
        return [(step, answer) for step, answer in pairs if type(step) is kind]


def row_of(step: EngineStep) -> TokenRow | None:
    match step:
        case SampleToken():
            return step.row
        case Feed():
            return step.draw
        case _:
            return None


def adjusted(sampler: Sampler, logits: Tensor, row: TokenRow, recent: Sequence[int]) -> Tensor:
    """The scores of the final choice after the tokens `recent`, (vocabulary,)."""
    settings = RowSettings(*settings_table([row], logits.device))
    said = torch.zeros(1, len(logits), dtype=torch.bool)
    said[0, recent] = True
    return sampler.adjust(logits[None], settings, said)[0]


def code_probabilities(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """The distribution of the draw for raw `logits` (rows, codes). The end code is the last."""
    width = logits.shape[1]
    table, recent = code_tables(rows, width, logits.device)
    candidates = max(code_candidates(row, width) for row in rows)
    return _chances(logits, CodeSettings.of(table), recent, candidates)


def stream_embeds(network: MiniCPMO, wave: Samples, rows: Any) -> Any:
    """Chunk by chunk: the mel, the trimmed steps, the last hidden states, the embeddings."""
    config = network.config.audio_config
    cache = SlottedCache(
        layers=config.encoder_layers,
        slots=1,
        positions=config.max_source_positions,
        heads=config.encoder_attention_heads,
        head_dim=config.d_model // config.encoder_attention_heads,
        device=network.device,
        dtype=network.dtype,
    )
    stream, length = MelStream(), 0
    for row in rows:
        at = row["chunk"] * 16000
        stream.push(wave[at : at + 16000])
        assert stream.ready
        mel = stream.take()
        assert len(stream._waiting) == row["buffer_left"]
        if length + (mel.shape[1] - 1) // 2 + 1 >= config.max_source_positions:
            length = 0
        assert length == row["position_offset"]
        lead = 0 if row["chunk"] == 0 else 2
        steps = trim_redundant(
            network.apm.convolve(mel[None]), leading_frames=lead, trailing_frames=2
        )
        positions = torch.arange(length, length + 50)[None]
        mask = torch.ones(1, 1, 50, length + 50, dtype=torch.bool)
        hidden = network.apm(steps, positions, mask, CacheWindow(cache, 0, positions, length + 50))
        length += 50
        yield mel, steps, hidden, network.audio_projection_layer(hidden)[0], cache


def row_of_case(case: Any, slot: int = 0, draw: float = 0.0) -> TokenRow:
    s = case["settings"]
    settings = SamplingSettings(
        greedy=s["mode"] == "greedy",
        temperature=s["temperature"],
        top_k=s["top_k"],
        top_p=s["top_p"],
        listen_prob_scale=s["listen_prob_scale"],
        listen_top_k=s["listen_top_k"],
        repetition_penalty=s["text_repetition_penalty"],
        length_penalty=s["length_penalty"],
    )
    chunk_end = golden_set.facts("tokenizer")["special"]["<|chunk_eos|>"]
    early = 0.0 if case.get("first_draw_forced_to") == chunk_end else 1.0
    recent = RecentTokens(case["history"][-s["text_repetition_window_size"] :])
    return TokenRow(settings, recent, slot, (early, draw))


def choices_of(
    sampler: Sampler, logits: torch.Tensor, rows: Sequence[TokenRow]
) -> list[SampledToken | EngineError]:
    """The tokens of `rows`, each of which has its own slot."""
    slots, vocabulary = max(row.slot for row in rows) + 1, logits.shape[1]
    graphs = GraphPool(logits.device, enabled=False)
    choice = TokenChoice(sampler, graphs, slots=slots, vocabulary=vocabulary, device=logits.device)
    return choice.read(choice.start(logits, rows), rows)


def codes_of(recorder: Recorder) -> list[int]:
    """All codes that were drawn, in order."""
    drawn = [answer for _, answer in recorder.of(DecodeSpeech)]
    return drawn + [code for _, codes in recorder.of(DecodeCodes) for code in codes]


@torch.inference_mode()
def forced_speech(
    runner: ModelRunner, given: dict[str, Tensor], chunks: Sequence[Any]
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For each chunk of f its number, the logits of its draws, and the keys of the last layer."""
    position = 0
    for n, facts in enumerate(chunks):
        position = 0 if facts["starts_new_turn"] else position
        assert position == facts["text_start_pos"]
        codes = runner.network.tts.embed_codes(given[f"chunk{n}.returned_tokens"])
        rows = []
        for embedded in (given[f"chunk{n}.condition"], *codes.split(1)):
            step = DecodeSpeech(2, position, embedded, CodeRow(SpeechSettings(), (), may_end=True))
            rows.append(runner.speech_logits([step])[0])
            position += step.size
        keys = runner.speech_cache.keys[-1][2, :position].transpose(0, 1)
        yield n, torch.stack(rows)[: facts["n_draws"]], keys


@contextmanager
def head_rows(network: MiniCPMO, rows: dict[str, Any], scale: float = 1) -> Iterator[None]:
    """The reference wrote with these rows of the head replaced, so that answers end: by another row, or by
    one and its factor. Some answers were written with a flatter head.
    """
    weight = network.llm.lm_head.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            for row, other in rows.items():
                source, factor = other if isinstance(other, list) else (other, 1)
                weight[int(row)] = kept[source] * factor
            weight.mul_(scale)
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


Check = Callable[..., None]
"""Gets the number of the unit, the session, its recorder, the outcome, the first logits, the lengths."""


def play(network: MiniCPMO, tokenizer: Tokenizer, runner: Any, name: str, check: Check) -> Any:
    """Run a session of the set with `runner`, which may be any that runs single steps; returns the session."""
    spec = golden_set.facts(name)["spec"]
    session = new_session(network, tokenizer, spec)
    waves = golden_set.waves()
    reference = clip_mels(waves[spec["ref_audio"]]) if spec["ref_audio"] else []
    Recorder(runner).run(
        session.prepare(spec["prefix_system_prompt"], spec["suffix_system_prompt"], reference)
    )
    for n, unit in enumerate(spec["units"]):
        session.config = config_of(spec, **unit["generate_kwargs_changed"])
        session.sampling = sampling_of(spec, **unit["generate_kwargs_changed"])
        recorder, mel = Recorder(runner), None
        if unit.get("audio"):
            start, end = unit["audio"]["samples"]
            mel = session.audio_input.push(waves[unit["audio"]["source"]][start:end])
        pictures = [
            slice_image(golden_set.image(name), SliceConfig(), most)
            for name, most in golden_set.frames(unit)
        ]
        recorder.run(session.prefill(mel, pictures))
        pending = session._pending
        after_prefill = session.length
        outcome = recorder.run(session.generate(force_listen=unit["force_listen_override"]))
        after_generate = session.length
        recorder.run(session.finalize())
        lengths = (after_prefill, after_generate, session.length)
        check(n, session, recorder, outcome, pending, lengths)
    return session


def session_of(tokenizer: Tokenizer, capacity: int = 512) -> TurnConversation:
    return TurnConversation(1, tokenizer, capacity=capacity)
