"""One full-duplex conversation: the rules of a unit, written as generators of engine steps."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    AudioInput,
    ContextLayout,
    ContextUnit,
    Piece,
    TextContext,
    WindowSlide,
    encode_clips,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    SampledToken,
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    Feed,
    FeedResult,
    SampleToken,
    ShiftCache,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from antiphon.inference_worker.engines.types import ContextFull, EngineError, InputRefused
from antiphon.shared_schemas.config import DuplexConfig

MAX_CHARACTERS = 28
"""The text of a unit stays shorter; the token that would reach this length is dropped."""

GREETING_BYTES = 15
"""UTF-8 bytes of a greeting in one unit: about a second of English or Chinese speech."""

LEAST_GREETING_TOKENS = 3
"""Tokens of a unit that speaks a word of the greeting: `<|speak|>`, the word and a terminator."""

PREVIOUS_MARKER = "\n\nprevious: "
UNIT_CLOSE_TOKENS = 3
"""Tokens after the counted ones of a unit: `<|turn_eos|>`, a terminator and `</unit>`."""


@dataclass(slots=True)
class UnitOutcome:
    """What a unit decided. `tokens` are spoken, `states` are their hidden states.

    `codes` is the speech, at most 25. Costs are in milliseconds.
    """

    is_listen: bool = True
    tokens: list[int] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    text: str = ""
    end_of_turn: bool = False
    codes: list[int] = field(default_factory=list)
    cost_llm_ms: float = 0.0
    cost_speech_ms: float = 0.0
    restarts_voice: bool = False


class UnitMemo(BaseModel):
    """Tokens of one unit: those fed while generating, its terminator, its ordinary words, those sampled.

    `greeting_left` is the number of tokens of the greeting that later units speak.

    For its speech: how many of the last `fed` tokens it covers (None without speech), its codes,
    the length of the speech context after the unit, and how many spoken units before it were
    fed again because the context was full.
    """

    model_config = ConfigDict(extra="ignore")

    fed: list[int] = Field(default_factory=list)
    terminator: int | None = None
    words: list[int] = Field(default_factory=list)
    chosen: list[int] = Field(default_factory=list)
    turn_open: bool = False
    greeting_left: int = 0
    spoken: int | None = None
    codes: list[int] = Field(default_factory=list)
    speech_length: int = 0
    fed_again: int = 0
    max_slices: int = 1

    @property
    def speech_start(self) -> int:
        """The position of the unit's condition in the speech context."""
        return self.speech_length - (self.spoken or 0) - 1 - len(self.codes)

    @property
    def restarts_voice(self) -> bool:
        """Whether a forced listen ended an open turn: its end was fed, and nothing was sampled."""
        return bool(self.fed) and not self.chosen


def duplex_sampling(config: DuplexConfig) -> SamplingSettings:
    """Sampling settings of a conversation; temperature 0 is greedy."""
    return SamplingSettings(
        greedy=config.decode_mode == "greedy" or config.temperature == 0.0,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        listen_prob_scale=config.listen_prob_scale,
        listen_top_k=config.listen_top_k,
        repetition_penalty=config.text_repetition_penalty,
        length_penalty=config.length_penalty,
    )


def duplex_speech(config: DuplexConfig) -> SpeechSettings:
    """Sampling settings of the codes; either temperature 0 is greedy."""
    return SpeechSettings(
        greedy=config.temperature == 0.0 or config.tts_temperature == 0.0,
        temperature=config.tts_temperature or 1.0,
    )


class DuplexConversation(TextContext):
    """State of one conversation in its slot: the lengths of its caches, and its decisions."""

    def __init__(
        self,
        slot: int,
        tokenizer: Tokenizer,
        audio_input: AudioInput,
        speech: SpeechContext,
        *,
        config: DuplexConfig,
        options: EngineOptions,
        seed: int = 0,
    ) -> None:
        capacity = options.context_tokens
        super().__init__(slot, tokenizer, capacity=capacity, seed=seed)
        self.audio_input = audio_input
        self.config = config
        self.options = options
        self.sampling = duplex_sampling(config)
        self.speech = speech
        self.units_prefilled = 0
        self.units_generated = 0
        self.turn_open = False
        self.history = RecentTokens(limit=config.text_repetition_window_size)
        """The tokens that the repetition penalty counts."""
        self.layout = ContextLayout(options)
        self.memo = UnitMemo()
        self._greeting: list[int] = []
        if (
            config.greeting.strip()
            and config.max_new_speak_tokens_per_chunk >= LEAST_GREETING_TOKENS
        ):
            words = tokenizer.plain(tokenizer.encode(config.greeting.strip()))
            self._greeting = [*words, self._ids.turn_eos]
        self._unclosed_words: tuple[int, ...] | None = None

    def prepare(self, prefix: str, suffix: str, reference: list[Tensor]) -> Steps[int]:
        """Feed the system prompt, with log-mels of reference audio between its halves."""
        pieces: list[Piece] = [tuple(self._tokenizer.encode(prefix))]
        if reference:
            pieces += yield from encode_clips(reference)
        yield from self.feed(pieces, want_logits=False)
        suffix_ids = tuple(self._tokenizer.encode(suffix))
        self.layout.prefix = self.length
        self.layout.suffix = suffix_ids
        self.layout.marker = tuple(self._tokenizer.encode(PREVIOUS_MARKER))
        yield from self.feed([suffix_ids], want_logits=False)
        return self.length

    def prefill(self, mel: Tensor | None, images: Sequence[SlicedImage] = ()) -> Steps[None]:
        """Feed the images and the log-mel chunk of a unit. Raises InputRefused if both are missing."""
        if mel is None and not images:
            raise InputRefused("a unit needs a full second of audio, or a picture")
        pieces: list[Piece] = [(self._ids.unit,)]
        pieces += yield from self.image_pieces(images)
        if mel is not None:
            pieces.append((yield from self.audio_input.encode(mel)))
        self._check_room(pieces)
        fed = yield from self.feed(pieces)
        self._pending = fed.logits
        self.units_prefilled += 1

    def feed_without_audio(self, images: Sequence[SlicedImage]) -> Steps[None]:
        """Feeds what the reference feeds before it finds that the audio is too short."""
        pieces: list[Piece] = [(self._ids.unit,)]
        pieces += yield from self.image_pieces(images)
        yield from self.feed(pieces, want_logits=False)

    def generate(self, *, force_listen: bool = False) -> Steps[UnitOutcome]:
        """Listen or speak, based on the logits of the last prefill."""
        if self._pending is None:
            raise EngineError("prefill must come before generate")
        began = time.perf_counter()
        if force_listen:
            self._greeting = []
        warming_up = self.units_generated < self.config.force_listen_count
        forced = force_listen or (warming_up and not self._greeting)
        self.units_generated += 1
        self.memo = UnitMemo()
        unit = UnitOutcome(forced, restarts_voice=force_listen and self.turn_open)
        if unit.restarts_voice:
            yield from self._feed_token(self._ids.turn_eos)
            self.turn_open = False
        limit = self.config.max_new_speak_tokens_per_chunk
        if forced and (limit > 1 or self.config.ls_mode == "implicit"):
            self._terminate(self._ids.listen)
        else:
            unit.is_listen = False
            yield from self._decode(unit, self._pending)
        self._pending = None
        unit.cost_llm_ms = _since(began)
        self._close_memo(unit)
        if not unit.is_listen:
            unit.text = self._tokenizer.decode(unit.tokens)
            yield from self._speak(unit)
        else:
            unit.end_of_turn = False
            if self.options.fidelity == "fixed" and not self.turn_open:
                self.speech.reset()
        self.memo.speech_length = self.speech.position
        return unit

    def finalize(self) -> Steps[None]:
        """Feed the terminator and `</unit>`, record the unit, slide the window. Idempotent."""
        if self._unclosed_words is None:
            return
        ending = tuple(t for t in (self.memo.terminator, self._ids.unit_end) if t is not None)
        yield from self.feed([ending], want_logits=False)
        words, self._unclosed_words = self._unclosed_words, None
        yield from self.close_unit(ContextUnit(self.length - self.layout.length, words))

    def close_unit(self, unit: ContextUnit) -> Steps[None]:
        """Record a unit whose tokens are all fed, and slide the window if necessary."""
        slide = self.layout.close(unit)
        if slide is not None:
            yield from self._slide(slide)

    def skip_greeting(self, left: int) -> None:
        """Leave only the last `left` tokens of the greeting: earlier units have spoken the others."""
        self._greeting = self._greeting[len(self._greeting) - left :]

    def _decode(self, unit: UnitOutcome, logits: Tensor) -> Steps[None]:
        greeting = self._greeting_tokens(unit)
        limit = self.config.max_new_speak_tokens_per_chunk
        # An explicit unit ends with a token that is not drawn.
        draws = 0 if self._greeting else limit - (self.config.ls_mode == "explicit")
        drawn: SampledToken | None = None
        if draws:
            drawn = yield SampleToken(logits, self._next_row())
        for turn in range(limit):
            if turn == limit - 1 and self.config.ls_mode == "explicit":
                self._terminate(self._ids.chunk_eos)
                return
            token = self._accept(drawn) if drawn is not None else next(greeting)
            unit.is_listen = token == self._ids.listen
            if token in self._ids.chunk_ends:
                self._terminate(token)
                return
            self.turn_open = True
            if turn and self._tokenizer.has_characters([*unit.tokens, token], MAX_CHARACTERS):
                self._terminate(self._ids.chunk_eos)
                return
            fed = yield from self._feed_token(token, self._next_row() if turn + 1 < draws else None)
            drawn = fed.drawn
            unit.end_of_turn = token == self._ids.turn_eos
            self.turn_open = not unit.end_of_turn
            if turn or self._counts_when_first(token):
                unit.tokens.append(token)
                unit.states.append(fed.hidden)

    def _greeting_tokens(self, unit: UnitOutcome) -> Iterator[int]:
        """The tokens of a unit of the greeting, in place of sampled ones."""
        yield self._record(self._ids.speak)
        while self._greeting:
            text = self._tokenizer.decode([*unit.tokens, self._greeting[0]])
            if unit.tokens and len(text.encode()) > GREETING_BYTES:
                break
            yield self._record(self._greeting.pop(0))
        yield self._ids.chunk_eos

    def _record(self, token: int) -> int:
        self.history.append(token)
        self.memo.chosen.append(token)
        return token

    def _next_row(self) -> TokenRow:
        """What the next draw depends on."""
        draws = (self._rng.random(), self._rng.random())
        return TokenRow(self.sampling, self.history, self.slot, draws)

    def _accept(self, drawn: SampledToken) -> int:
        """Record a drawn token. In an open turn, `<|tts_bos|>` takes the place of `<|listen|>`."""
        if drawn.recorded:
            self._record(drawn.token)
        if drawn.token == self._ids.listen and self.turn_open:
            return self._ids.tts_bos
        return drawn.token

    def _counts_when_first(self, token: int) -> bool:
        """Upstream never speaks the first token of a unit, even if it is a word; "fixed" speaks it."""
        return self.options.fidelity == "fixed" and bool(self._tokenizer.plain([token]))

    def _feed_token(self, token: int, draw: TokenRow | None = None) -> Steps[FeedResult]:
        self.memo.fed.append(token)
        return (yield from self.feed([(token,)], want_logits=draw is not None, draw=draw))

    def _terminate(self, token: int) -> None:
        self.memo.terminator = token if self.config.ls_mode == "explicit" else None

    def _close_memo(self, unit: UnitOutcome) -> None:
        words = () if unit.is_listen else tuple(self._tokenizer.plain(unit.tokens))
        self.memo.words = list(words)
        self.memo.turn_open = self.turn_open
        self.memo.greeting_left = len(self._greeting)
        self._unclosed_words = words

    def _speak(self, unit: UnitOutcome) -> Steps[None]:
        if not self.config.generate_audio:
            return
        began = time.perf_counter()
        unit.codes = yield from self.speech.generate_codes(
            unit.tokens, unit.states, may_end=unit.end_of_turn
        )
        self.memo.spoken, self.memo.codes = len(unit.tokens), unit.codes
        self.memo.fed_again = self.speech.fed_again
        if unit.end_of_turn:
            self.speech.reset()
        unit.cost_speech_ms = _since(began)

    def _check_room(self, pieces: Sequence[Piece]) -> None:
        """Raise ContextFull before anything is fed if the unit might not fit."""
        most = self.config.max_new_speak_tokens_per_chunk
        needed = sum(map(len, pieces)) + most + UNIT_CLOSE_TOKENS
        if self.length + needed > self._capacity:
            raise ContextFull(
                f"the context of {self._capacity} tokens has no room for another unit"
            )

    def _slide(self, slide: WindowSlide) -> Steps[None]:
        if slide.count and slide.source != slide.target:
            yield ShiftCache(self.slot, slide.source, slide.target, slide.count)
        if slide.refill:
            yield Feed(self.slot, slide.refill_at, (slide.refill,), want_logits=False)
        self.length = self.layout.length


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
