"""Runs a batch of steps of one type on the network and its caches. It knows nothing of conversations."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from antiphon.inference_worker.engines.minicpmo.model.network import USUAL_SIDE, MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.vision import Grid
from antiphon.inference_worker.engines.minicpmo.scheduling.code_decoder import (
    CodeDecoder,
    DrawnCodes,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool, bucket
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    RankedTokens,
    SampledToken,
    Sampler,
    rank_tokens,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import (
    AUDIO_STEPS,
    TEXT_GRAPHS,
    SlotInput,
    SlottedTransformer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_BESIDE,
    CODES_PER_STEP,
    MAX_AUDIO_ROWS,
    MAX_PICTURES,
    PICTURE_PATCHES,
    UNIT_FRAMES,
    AudioFrames,
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
    RankTokens,
    SampleToken,
    ShiftCache,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import TokenChoice, TokenRow
from antiphon.inference_worker.engines.types import EngineError

PICTURE_COUNTS = tuple(range(MAX_PICTURES, 0, -1))
"""Numbers of image slices that have a CUDA graph. The largest is captured first, as for all graphs."""


class ModelRunner:
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
        graphs: GraphPool | None = None,
    ) -> None:
        self.network = network
        self.slots = slots
        self._device = network.device
        self._invariant = invariant
        suits = network.llm.model.kernels.ragged and not invariant
        self.ragged = suits if ragged is None else ragged
        if self._device.type == "cuda":
            configure_process()
        self.graphs = graphs or GraphPool(network.device, enabled=cuda_graphs)
        # Graphs of one pool share memory, so those that may run at the same time need two.
        self._code_graphs = (
            GraphPool(network.device, enabled=cuda_graphs) if speech_stream else self.graphs
        )

        def build(
            transformer: Decoder | AudioEncoder, positions: int, graphs: GraphPool, **given: Any
        ) -> SlottedTransformer:
            return SlottedTransformer(
                transformer,
                graphs,
                slots=slots,
                positions=positions,
                invariant=invariant,
                ragged=self.ragged,
                **given,
            )

        self._text = build(network.llm.model, context, self.graphs, graphed=TEXT_GRAPHS)
        self._speech = build(network.tts.model, speech_context, self._code_graphs, graphed=())
        self._audio = build(
            network.apm,
            network.config.audio_config.max_source_positions,
            self.graphs,
            graphed=(AUDIO_STEPS,),
            project=network.audio_projection_layer,
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
            EncodeImages: self._encode_images,
            SpeechCondition: self._speech_conditions,
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
        stream, is_condition = self._speech_stream, isinstance(steps[0], DecodeSpeech)
        if stream is None:
            return DrawnCodes(
                *self._decode_speech(steps) if is_condition else self._codes.run(steps)
            )
        with torch.cuda.stream(stream):
            if is_condition and self._conditions is not None:
                stream.wait_event(self._conditions)
            started = self._decode_speech(steps) if is_condition else self._codes.run(steps)
            return DrawnCodes(*started, stream, stream.record_event())

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
        # Pictures first: their values take the most memory, which the other graphs share.
        captured = self._capture_pictures() + self._capture_convolution()
        captured += sum(transformer.capture() for transformer in transformers)
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
        inputs = [SlotInput(step.slot, step.start, step.size, (step.condition,)) for step in steps]
        return self._project(tts.logits, self._speech.forward(inputs), inputs)

    def _feed(self, feeds: Sequence[Feed]) -> list[FeedResult | EngineError]:
        llm = self.network.llm
        inputs = [SlotInput(f.slot, f.start, f.size, f.pieces) for f in feeds]
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
        return self._text.states(SlotInput(step.slot, step.start, step.size, step.pieces))

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
        return rank_tokens(torch.stack(list(step.logits)), step.said, step.settings)

    def _decode_speech(self, steps: Sequence[DecodeSpeech]) -> tuple[Tensor, list[int]]:
        codes = self._codes.draw(self.speech_logits(steps), [step.row for step in steps])
        return codes, list(range(len(steps)))

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

    def _encode_audio(self, chunks: Sequence[EncodeAudio]) -> list[Tensor]:
        """Embeddings (10, width) of chunks of one size, one chunk per slot."""
        # With fixed shapes each alone: the products of a batch depend on its size.
        batches = [[chunk] for chunk in chunks] if self._invariant else _by_frames(chunks)
        steps = {chunk: row for batch in batches for chunk, row in self._convolved(batch)}
        inputs = [SlotInput(c.slot, c.start, c.size, (steps[c],)) for c in chunks]
        embeds, rows = self._audio.rows(inputs)
        return [embeds[row] for row in rows]

    def _convolved(self, chunks: Sequence[EncodeAudio]) -> Iterator[tuple[EncodeAudio, Tensor]]:
        """Chunks of equal frames, each with its steps (n, width)."""
        frames, count = chunks[0].frames, bucket(len(chunks))
        mels = [chunk.mel for chunk in chunks]
        forward, key = partial(self._convolve, frames), (EncodeAudio, frames, count)
        if key in self.graphs:
            mels += mels[-1:] * (count - len(chunks))
        batch = to_device(torch.stack(mels).to(self.network.dtype), self._device)
        is_unit = frames == UNIT_FRAMES
        steps = self.graphs.run(key, (batch,), forward) if is_unit else forward(batch)
        return zip(chunks, steps, strict=False)

    def _convolve(self, frames: AudioFrames, mels: Tensor) -> Tensor:
        return trim_redundant(
            self.network.apm.convolve(mels),
            leading_frames=frames.leading,
            trailing_frames=frames.trailing,
        )

    def _capture_convolution(self) -> int:
        """Capture it for every number of chunks that are encoded together."""
        counts = sorted({bucket(n + 1) for n in range(min(self.slots, MAX_AUDIO_ROWS))})
        bins = self.network.config.audio_config.num_mel_bins
        for count in reversed(counts):
            mels = torch.zeros(
                count, bins, UNIT_FRAMES.all, dtype=self.network.dtype, device=self._device
            )
            forward = partial(self._convolve, UNIT_FRAMES)
            self.graphs.capture((EncodeAudio, UNIT_FRAMES, count), (mels,), forward)
        return len(counts)

    def _encode_clips(self, step: EncodeClips) -> list[Tensor]:
        return self.network.encode_clips(step.mels, step.frames, full_attention=step.full_attention)

    def _encode_images(self, steps: Sequence[EncodeImages]) -> list[Tensor]:
        """With fixed shapes each step alone."""
        if self._invariant:
            return [self.network.encode_images(step.pixels, step.grids) for step in steps]
        pixels = [part for step in steps for part in step.pixels]
        grids = [grid for step in steps for grid in step.grids]
        key, usual = (EncodeImages, len(grids)), all(map(_is_usual, grids))
        if usual and key in self.graphs:
            slices = self.network.place_images(pixels, grids, PICTURE_PATCHES)
            seen = self.graphs.run(key, slices, self.network.encode_slices)
        else:
            seen = self.network.encode_images(pixels, grids)
        return list(torch.split(seen, [len(step.grids) for step in steps]))

    def _capture_pictures(self) -> int:
        """Capture the encoder of images for each number of slices."""
        blank = torch.zeros(3, 1, 1).expand(3, *[self.network.config.vision_config.patch_size] * 2)
        for count in PICTURE_COUNTS:
            slices = self.network.place_images([blank] * count, [(1, 1)] * count, PICTURE_PATCHES)
            self.graphs.capture((EncodeImages, count), slices, self.network.encode_slices)
        return len(PICTURE_COUNTS)

    def _speech_conditions(self, steps: Sequence[SpeechCondition]) -> list[Tensor]:
        """With fixed shapes each alone: the products of a batch depend on its size."""
        batches = [[step] for step in steps] if self._invariant else [steps]
        conditions = [one for batch in batches for one in self._conditions_of(batch)]
        if self._conditions is not None:
            self._conditions.record()
        return conditions

    def _conditions_of(self, steps: Sequence[SpeechCondition]) -> list[Tensor]:
        """The words of each step, their marks, and the codes that follow them."""
        tts, ids, places, lengths = self.network.tts, list[int](), list[int](), list[int]()
        for step in steps:
            places += range(len(ids), len(ids) + len(step.tokens))
            marks = [tts.text_eos, tts.audio_bos] if step.text_ends else [tts.audio_bos]
            ids += [*step.tokens, *marks]
            lengths.append(len(step.tokens) + len(marks))
        packed = device_tensor([*ids, *places], self._device)
        states = [state for step in steps for state in step.states]
        joint = torch.stack(states) if states else torch.zeros(0, device=self._device)
        embedded = tts.conditions(packed[: len(ids)], packed[len(ids) :], joint)
        conditions = list(torch.split(embedded, lengths))
        for n, step in enumerate(steps):
            if step.codes:
                codes = tts.embed_codes(device_tensor(step.codes, self._device))
                conditions[n] = torch.cat([conditions[n], codes])
        return conditions

    def _shift_cache(self, step: ShiftCache) -> None:
        inv_freq = self.network.llm.model.inv_freq
        self.text_cache.shift(step.slot, step.source, step.target, step.count, inv_freq)

    def _clear_slot(self, step: ClearSlot) -> None:
        for cache in (self.text_cache, self.audio_cache):
            cache.clear(step.slot)
        if self._speech_stream is None:
            self.speech_cache.clear(step.slot)
            return
        with torch.cuda.stream(self._speech_stream):
            self.speech_cache.clear(step.slot)

    @staticmethod
    def _each(run_one: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda steps: [run_one(step) for step in steps]


def _by_frames(chunks: Sequence[EncodeAudio]) -> list[list[EncodeAudio]]:
    """The first chunk of a session has fewer frames than the others."""
    alike = defaultdict[AudioFrames, list[EncodeAudio]](list)
    for chunk in chunks:
        alike[chunk.frames].append(chunk)
    return list(alike.values())


def _is_usual(grid: Grid) -> bool:
    """Whether a slice fits the CUDA graph of pictures."""
    return grid[0] * grid[1] <= PICTURE_PATCHES and max(grid) <= USUAL_SIDE
