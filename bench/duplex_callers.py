"""Sessions of `bench/gpu_duplex.py`: their tokens are scripted, and the engine computes everything else."""

import copy
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from antiphon.inference_worker.engines.minicpmo.conversations.duplex import DuplexConversation
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SampledToken, Sampler
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import TokenRow
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import Token2WavVocoder
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

TURN_UNITS = 4
"""Units that a session speaks or listens for at a time."""

BUFFERED_S = 20
"""Seconds of audio before the first unit. From then on the log-mel covers 20 to 30 s."""

UNIT_ROOM = 160
"""Tokens that a unit may need, with a picture."""


class ScriptedSampler(Sampler):
    """Does all the work of sampling, then returns the next token of the session's script."""

    scripts: dict[int, deque[int]]

    def read(
        self, table: Sequence[Sequence[int]], rows: Sequence[TokenRow]
    ) -> list[SampledToken | EngineError]:
        answers = super().read(table, rows)
        return [self._scripted(row.slot) for row, _ in zip(rows, answers, strict=True)]

    def _scripted(self, slot: int) -> SampledToken:
        token = self.scripts[slot].popleft()
        return SampledToken(token, recorded=token != self.ids.chunk_eos)


@dataclass
class Script:
    """Which units of a session speak, and their tokens.

    Turns of TURN_UNITS units are spoken or not, so that the share of spoken ones is `speaking`, from
    a random start. Words are different tokens of the whole vocabulary.
    """

    ids: SpecialIds
    words: range
    speaking: float
    tokens: int
    random: random.Random
    unit: int = 0
    _offset: float = field(init=False)
    _skipped: int = field(init=False)

    def __post_init__(self) -> None:
        self._offset = self.random.random()
        self._skipped = self.random.randrange(TURN_UNITS)

    def next_unit(self) -> deque[int]:
        """The tokens of the next unit, in the order of their draws."""
        turn, place = divmod(self.unit + self._skipped, TURN_UNITS)
        self.unit += 1
        if not self._speaks(turn):
            return deque([self.ids.listen])
        return self.spoken_unit(ends_turn=place == TURN_UNITS - 1)

    def spoken_unit(self, *, ends_turn: bool) -> deque[int]:
        """The tokens of a SPEAK unit. The last one of a turn has to end it."""
        said = self.random.sample(self.words, self.tokens)
        if ends_turn:
            said[-1] = self.ids.turn_eos
        return deque([*said, self.ids.chunk_eos])

    def _speaks(self, turn: int) -> bool:
        done = turn * self.speaking + self._offset
        return int(done + self.speaking) > int(done)


@dataclass
class Caller:
    """A session in its slot. Its context is half full at first, and again whenever it is full."""

    conversation: DuplexConversation
    script: Script
    sampler: ScriptedSampler
    capacity: int
    second: Samples
    voice: VoiceState | None = None
    synthesis_ms: list[float] = field(default_factory=list)

    def prepare(self) -> Steps[None]:
        """Fill half of the context with a prompt and tokens, and the history with other tokens."""
        one, words = self.conversation, self.script.words
        yield from one.prepare("system", "end", [])
        past = self.script.random.choices(words, k=self.capacity // 2 - one.length)
        yield from one.feed([tuple(past)], want_logits=False)
        window = min(one.config.text_repetition_window_size, len(words))
        one.history.extend(self.script.random.sample(words, window))
        self._start = one.length, copy.deepcopy(one.layout)
        _fill_audio(one)

    def run_unit(
        self,
        engine: Engine,
        vocoder: Token2WavVocoder | None,
        tokens: deque[int],
        pictures: Sequence[SlicedImage] = (),
    ) -> bool:
        """A unit from its audio to the decision to listen or to its sound; returns whether it spoke."""
        one = self.conversation
        if one.length + UNIT_ROOM > self.capacity:
            one.length, one.layout = self._start[0], copy.deepcopy(self._start[1])
        self.sampler.scripts[one.slot] = tokens
        engine.run(one.prefill(one.audio_input.push(self.second), pictures))
        outcome = engine.run(one.generate())
        if vocoder is not None and self.voice is not None and not outcome.is_listen:
            began = time.perf_counter()
            vocoder.synthesize(self.voice, outcome.codes, last=outcome.end_of_turn)
            self.synthesis_ms.append((time.perf_counter() - began) * 1000)
        return not outcome.is_listen


def _fill_audio(one: DuplexConversation) -> None:
    """Fill the audio buffer and move the encoder's position, as in a session that runs for a while."""
    source = np.random.default_rng(one.slot)
    for _ in range(BUFFERED_S + one.slot % 10):
        one.audio_input.push(noise(source))
    one.audio_input.position = 50 * int(source.integers(one.audio_input.capacity // 50))


def noise(source: np.random.Generator) -> Samples:
    """A second of noise at 16 kHz."""
    return source.normal(0, 0.05, INPUT_RATE).astype(np.float32)


def due_times(units: int, *, jitter_s: float, source: random.Random) -> Iterator[float]:
    """When the audio of each unit of a session is complete, in seconds. The phase is random."""
    phase = source.random()
    for unit in range(units):
        yield phase + unit + source.random() * jitter_s
