"""Runs a batch of steps of one type on the network and its caches. It knows nothing of conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import (
    configure_process,
    device_tensor,
    is_device_lost,
    to_device,
)
from antiphon.inference_worker.engines.minicpmo.model.audio import AudioEncoder, trim_redundant
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.scheduling.code_decoder import (
    CodeDecoder,
    DrawnCodes,
    sample_codes,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import Sampler, rank_tokens
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import (
    AUDIO_GRAPHS,
    TEXT_GRAPHS,
    SlotInput,
    SlottedTransformer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_BESIDE,
    CODES_PER_STEP,
    ClearSlot,
    DecodeCodes,
    DecodeSpeech,
    EncodeAudio,
    EncodeClips,
    EncodeImages,
    EngineStep,
    Feed,
    FeedForStates,
    FeedResult,
    RankedTokens,
    RankTokens,
    SampledToken,
    SampleToken,
    ShiftCache,
    SpeechCondition,
    TokenRow,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import TokenChoice
from antiphon.inference_worker.engines.types import EngineError


class Runner:
    """The network with the caches of `slots` sessions.

    With `invariant`, every shared batch has the same shape, so the numbers of a session are
    bit-identical with and without other sessions. Otherwise shapes follow the sessions in use.

    With `ragged`, feeds of any length share a batch. The default is what suits the kernels.

    With `speech_stream`, the speech model has a separate CUDA stream: `start` runs its steps beside
    those of the language model. Its cache belongs to that stream.
    """

    def __init__(
        self,
        network: MiniCPMO,
        sampler: Sampler,
        *,
        slots: int,
        context: int,
        speech_context: int,
        invariant: bool,
        cuda_graphs: bool = False,
        ragged: bool | None = None,
        speech_stream: bool = False,
    ) -> None:
        self.network = network
        self.slots = slots
        self._device = network.device
        self._invariant = invariant
        suits = network.llm.model.kernels.ragged and not invariant
        self.ragged = suits if ragged is None else ragged
        if self._device.type == "cuda":
            configure_process()
        self.graphs = GraphPool(network.device, enabled=cuda_graphs)

        def build(
            transformer: Decoder | AudioEncoder, positions: int, graphed: Sequence[int] = ()
        ) -> SlottedTransformer:
            return SlottedTransformer(
                transformer,
                self.graphs,
                slots=slots,
                positions=positions,
                graphed=graphed,
                invariant=invariant,
                ragged=self.ragged,
            )

        self._text = build(network.llm.model, context, TEXT_GRAPHS)
        self._speech = build(network.tts.model, speech_context)
        length = network.config.audio_config.max_source_positions
        self._audio = build(network.apm, length, AUDIO_GRAPHS)
        # Graphs of one pool share memory, so those that may run at the same time need two.
        self._code_graphs = (
            GraphPool(network.device, enabled=cuda_graphs) if speech_stream else self.graphs
        )
        per_step = CODES_BESIDE if speech_stream else CODES_PER_STEP
        self._codes = CodeDecoder(network.tts, self._speech, self._code_graphs, per_step)
        self.starts_codes = speech_stream
        self._choices = {
            written: TokenChoice(
                each,
                self.graphs,
                slots=slots,
                vocabulary=network.config.vocab_size,
                device=self._device,
            )
            for written, each in ((False, sampler), (True, sampler.for_answers()))
        }
        self._speech_stream = torch.cuda.Stream(network.device) if speech_stream else None  # type: ignore[no-untyped-call]
        self._conditions = torch.cuda.Event() if speech_stream else None  # type: ignore[no-untyped-call]
        self.text_cache = self._text.cache
        self.speech_cache = self._speech.cache
        self.audio_cache = self._audio.cache
        self._run_by_type: dict[type[EngineStep], Callable[[Sequence[Any]], Sequence[Any]]] = {
            Feed: self._feed,
            FeedForStates: self._each(self._feed_for_states),
            SampleToken: self._sample,
            RankTokens: self._each(self._rank),
            EncodeAudio: self._encode_audio,
            EncodeClips: self._each(self._encode_clips),
            EncodeImages: self._each(self._encode_images),
            SpeechCondition: self._each(self._speech_condition),
            DecodeSpeech: lambda steps: self.start(steps).read(),
            DecodeCodes: lambda steps: self.start(steps).read(),
            ShiftCache: self._each(self._shift_cache),
            ClearSlot: self._each(self._clear_slot),
        }

    def enter_thread(self) -> None:
        """Call once from the thread that will run the steps."""
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def is_device_lost(self) -> bool:
        return is_device_lost(self._device)

    @torch.inference_mode()
    def run(self, steps: Sequence[EngineStep]) -> Sequence[Any]:
        """Results of the steps of one group, in order. A failed row gets its exception as the result."""
        return self._run_by_type[type(steps[0])](steps)

    @torch.inference_mode()
    def start(self, steps: Sequence[Any]) -> DrawnCodes:
        """Start DecodeSpeech or DecodeCodes of one group, without waiting for the codes."""
        with torch.cuda.stream(self._speech_stream):
            if isinstance(steps[0], DecodeSpeech):
                if self._speech_stream is not None and self._conditions is not None:
                    self._speech_stream.wait_event(self._conditions)
                codes, rows = self._decode_speech(steps), list(range(len(steps)))
            else:
                codes, rows = self._codes.run(steps)
            if self._speech_stream is None:
                return DrawnCodes(codes, rows)
            return DrawnCodes(codes, rows, self._speech_stream, self._speech_stream.record_event())

    def graph_runs(self) -> tuple[int, int]:
        """How often graphs were replayed, and how often a step that may have one ran without."""
        pools = {self.graphs, self._code_graphs}
        return sum(p.replayed for p in pools), sum(p.eager for p in pools)

    @torch.inference_mode()
    def capture_graphs(self) -> int:
        """Capture the steps of every unit as CUDA graphs, if enabled; returns their number."""
        if not self.graphs.enabled:
            return 0
        transformers = (self._text, self._speech, self._audio)
        captured = sum(transformer.capture() for transformer in transformers)
        captured += self._codes.capture(self.slots)
        return captured + sum(choice.capture() for choice in self._choices.values())

    @torch.inference_mode()
    def warm_up(self) -> int:
        """Run short steps once at each of their shapes; returns their number."""
        return self._text.warm_up() + self._speech.warm_up()

    @torch.inference_mode()
    def speech_logits(self, steps: Sequence[DecodeSpeech]) -> Tensor:
        """Raw scores of the first code, (steps, codes)."""
        tts = self.network.tts
        inputs = [SlotInput(step.slot, step.start, step.condition) for step in steps]
        return self._project(tts.logits, self._speech.forward(inputs), inputs)

    def _feed(self, feeds: Sequence[Feed]) -> list[FeedResult | EngineError]:
        llm = self.network.llm
        embeds = self.embed(feeds)
        inputs = [SlotInput(f.slot, f.start, e) for f, e in zip(feeds, embeds, strict=True)]
        hidden = self._text.forward(inputs)
        if not any(feed.want_logits for feed in feeds):
            return [FeedResult(row, None) for row in hidden]
        logits = self._project(llm.logits, hidden, inputs)
        drawn = self._draw(logits, [feed.draw for feed in feeds])
        return [
            token if isinstance(token, EngineError) else FeedResult(state, scores, token)
            for state, scores, token in zip(hidden, logits, drawn, strict=True)
        ]

    def _feed_for_states(self, step: FeedForStates) -> Tensor:
        [embeds] = self.embed([step])
        return self._text.states(SlotInput(step.slot, step.start, embeds))

    def _sample(self, steps: Sequence[SampleToken]) -> Sequence[Any]:
        return self._draw(torch.stack([s.logits for s in steps]), [s.row for s in steps])

    def _draw(
        self, logits: Tensor, rows: Sequence[TokenRow | None]
    ) -> list[SampledToken | EngineError | None]:
        """A token for each row of `logits` (rows, vocabulary) that has settings."""
        drawn: list[SampledToken | EngineError | None] = [None] * len(rows)
        started = []
        for written, choice in self._choices.items():
            members = {n: row for n, row in enumerate(rows) if row and row.written == written}
            if not members:
                continue
            places, own = list(members), list(members.values())
            part = logits
            if len(places) < len(rows):
                part = logits.index_select(0, device_tensor(places, self._device))
            started.append((choice, places, own, choice.start(part, own)))
        for choice, places, own, table in started:
            # The only point where the host waits for the device.
            for place, token in zip(places, choice.read(table, own), strict=True):
                drawn[place] = token
        return drawn

    def _rank(self, step: RankTokens) -> RankedTokens | EngineError:
        return rank_tokens(torch.stack(list(step.logits)), step.written, step.settings)

    def _decode_speech(self, steps: Sequence[DecodeSpeech]) -> Tensor:
        return sample_codes(self.speech_logits(steps), [step.row for step in steps])

    def _project(
        self, head: Callable[[Tensor], Tensor], hidden: Tensor, inputs: Sequence[SlotInput]
    ) -> Tensor:
        """Scores of `hidden` rows; with fixed shapes through a table of all slots."""
        if not self._invariant:
            return head(hidden).float()
        slots = device_tensor([p.slot for p in inputs], hidden.device)
        table = hidden.new_zeros(self.slots, hidden.shape[1])
        table[slots] = hidden
        return head(table)[slots].float()

    def embed(self, feeds: Sequence[Feed]) -> list[Tensor]:
        """Embeddings (n, width) of each feed; all ids are looked up at once."""
        pieces = [piece for feed in feeds for piece in feed.pieces]
        ids = [token for piece in pieces if isinstance(piece, tuple) for token in piece]
        looked_up = self.network.llm.model.embed_tokens(device_tensor(ids, self._device))
        rows, found = 0, []
        for piece in pieces:
            if isinstance(piece, tuple):
                found.append(looked_up[rows : rows + len(piece)])
                rows += len(piece)
            else:
                found.append(piece)
        parts = iter(found)
        return [_joined([next(parts) for _ in feed.pieces]) for feed in feeds]

    def _encode_audio(self, chunks: Sequence[EncodeAudio]) -> list[Tensor]:
        """Embeddings (10, width) of chunks of one size, one chunk per slot."""
        inputs = [SlotInput(chunk.slot, chunk.start, self._convolve(chunk)) for chunk in chunks]
        embeds = self.network.audio_projection_layer(self._audio.rows(inputs))
        return [embeds[chunk.slot] for chunk in chunks]

    def _convolve(self, chunk: EncodeAudio) -> Tensor:
        """Each chunk alone: its convolution must see silence on both sides, not another chunk."""
        mel = to_device(chunk.mel[None].to(self.network.dtype), self._device)
        steps = self.network.apm.convolve(mel)
        leading, trailing = chunk.leading_frames, chunk.trailing_frames
        return trim_redundant(steps, leading_frames=leading, trailing_frames=trailing)[0]

    def _encode_clips(self, step: EncodeClips) -> list[Tensor]:
        return self.network.encode_clips(step.mels, full_attention=step.full_attention)

    def _encode_images(self, step: EncodeImages) -> Tensor:
        return self.network.encode_images(step.pixels, step.grids)

    def _speech_condition(self, step: SpeechCondition) -> Tensor:
        device = self._device
        states = torch.stack(step.states) if step.states else torch.zeros(0, device=device)
        tokens = device_tensor(step.tokens, device)
        condition = self.network.tts.condition(tokens, states, text_ends=step.text_ends)
        if step.codes:
            codes = self.network.tts.embed_codes(device_tensor(step.codes, device))
            condition = torch.cat([condition, codes])
        if self._conditions is not None:
            self._conditions.record()
        return condition

    def _shift_cache(self, step: ShiftCache) -> None:
        inv_freq = self.network.llm.model.inv_freq
        self.text_cache.shift(step.slot, step.source, step.target, step.count, inv_freq)

    def _clear_slot(self, step: ClearSlot) -> None:
        for cache in (self.text_cache, self.audio_cache):
            cache.clear(step.slot)
        with torch.cuda.stream(self._speech_stream):
            self.speech_cache.clear(step.slot)

    @staticmethod
    def _each(run_one: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda steps: [run_one(step) for step in steps]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
