"""One turn-based conversation: a whole chat, or a half-duplex conversation turn by turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.conversations.beam_search import (
    BeamCursor,
    BeamSearch,
)
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    ANSWER_OPENING,
    USER_CLOSING,
    PromptPart,
    PromptTurn,
    embed_prompt,
    message_text,
)
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import AnswerSpeech
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    Piece,
    TextContext,
    TurnWindow,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import (
    TemplateMessage,
    Tokenizer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    SampledToken,
    SamplingSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    FeedResult,
    RankTokens,
    SampleToken,
    ShiftCache,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from antiphon.inference_worker.engines.types import ContextFull, EngineError

NO_CALLS: Mapping[int, Sequence[dict[str, Any]]] = {}

USER_OPENING = "<|im_start|>user\n"
NEXT_USER_OPENING = "<|tts_eos|><|im_end|>\n" + USER_OPENING
"""The token that ended the answer is not fed. The reference closes each answer in this way."""

GROUP_TOKENS = 10
PENALTY_TOKENS = 128

LEAST_ANSWER_TOKENS = 64
"""An answer that may be longer begins only with so much room."""


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The text and tokens of an answer; `cut` if it did not end by itself, `stopped` if its reader ended
    it. A searched answer has the hidden `states` (width,) of its tokens.
    """

    text: str
    tokens: tuple[int, ...]
    cut: bool
    states: tuple[Tensor, ...] = field(default=(), repr=False)
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A position to roll back to: the cache up to `length`, without what the window has dropped since."""

    length: int
    pending: Tensor | None
    opening: str
    window: TurnWindow


def penalised(written: Sequence[int]) -> tuple[int, ...]:
    """The tokens of an answer that the repetition penalty of the next one counts.

    The reference writes in groups of ten (the first has eleven), and counts the group of the next
    token and 128 tokens before it.
    """
    groups = max(0, len(written) - 1) // GROUP_TOKENS
    begin = groups * GROUP_TOKENS + 1 if groups else 0
    return tuple(written[max(0, begin - PENALTY_TOKENS) :])


class TurnConversation(TextContext):
    """State of one turn-based conversation in its slot."""

    _opening = USER_OPENING
    """What the next part of the user turn begins with."""

    def __init__(
        self,
        slot: int,
        tokenizer: Tokenizer,
        *,
        capacity: int,
        seed: int = 0,
        window: TurnWindow = TurnWindow(),  # noqa: B008  # immutable
    ) -> None:
        super().__init__(slot, tokenizer, capacity=capacity, seed=seed)
        self.window = window

    def chat(
        self,
        turns: Sequence[PromptTurn],
        *,
        joint: str = "\n",
        generation_prompt: bool = True,
        thinking: bool = False,
        speak: bool = False,
        tools: Sequence[dict[str, Any]] = (),
        tool_calls: Mapping[int, Sequence[dict[str, Any]]] = NO_CALLS,
    ) -> Steps[FeedResult]:
        """Feed a whole conversation, rendered with the checkpoint's template.

        `tool_calls` are those of the turns with these indexes.
        """
        messages, parts, images = list[TemplateMessage](), list[PromptPart](), 0
        for index, (role, content) in enumerate(turns):
            text = message_text(content, joint=joint, first_image_id=images)
            calls = tool_calls.get(index)
            messages.append(
                {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}
            )
            parts += content
            images += sum(isinstance(part, SlicedImage) for part in content)
        text = self._tokenizer.chat(
            messages,
            add_generation_prompt=generation_prompt,
            thinking=thinking,
            speak=speak,
            tools=tools,
        )
        return (yield from self._feed_text(text, parts))

    def user(self, parts: Sequence[PromptPart]) -> Steps[FeedResult]:
        """Feed a whole user turn; its audio is encoded with full attention."""
        start = self.length
        text = self._opening + message_text(parts, joint="", first_image_id=None)
        fed = yield from self._feed_text(text, parts, full_attention=True)
        self._opening = ""
        self.window = self.window.add_user_turn(start, self.length - start)
        if self.window.counts_as_reference:
            yield from self.make_room(0)
        return fed

    def make_room(self, needed: int) -> Steps[None]:
        """Drop the oldest tokens if the window or the context is too full for `needed` tokens more.

        The system prompt and a greeting remain.
        """
        gone = self.window.excess(self.length, self._capacity - needed)
        if not gone:
            return
        target = self.window.protected
        if count := self.length - target - gone:
            yield ShiftCache(self.slot, target + gone, target, count)
        self.length -= gone
        self.window = self.window.without(gone)

    def system(self, parts: Sequence[PromptPart]) -> Steps[FeedResult]:
        """Feed the system prompt of a half-duplex conversation; its audio is encoded with full attention."""
        content = message_text(parts, joint="", first_image_id=None)
        text = f"<|im_start|>system\n{content}<|im_end|>\n"
        fed = yield from self._feed_text(text, parts, full_attention=True)
        self.protect()
        return fed

    def protect(self) -> None:
        """Keep what the context has now, even if the window drops it later."""
        self.window = replace(self.window, protected=self.length)

    def open_answer(self) -> Steps[FeedResult]:
        """Close the user's turn and open the answer."""
        return (yield from self._feed_text(USER_CLOSING + ANSWER_OPENING, ()))

    def open_greeting(self) -> Steps[FeedResult]:
        """Open a turn of the model that no user turn comes before."""
        return (yield from self._feed_text(ANSWER_OPENING, ()))

    def replay_answer(self, tokens: tuple[int, ...], *, spoken: bool) -> Steps[None]:
        """Feed an existing answer, which may be empty; `spoken` to its end or not."""
        if tokens:
            yield from self._feed([tokens])
        self._pending = None
        self._end_answer(tokens, spoken=spoken)

    def generate(
        self,
        settings: SamplingSettings,
        limit: int,
        on_text: Callable[[str], None] = lambda _text: None,
        stopped: Callable[[], bool] = lambda: False,
        speech: AnswerSpeech | None = None,
        said: Sequence[int] = (),
    ) -> Steps[WrittenAnswer]:
        """Generate an answer of at most `limit` tokens; `speech` speaks it.

        `on_text` gets the whole text so far. The answer is cut when `stopped` returns True. `said`
        are the tokens of an answer that another worker began: they are fed but not spoken.

        An answer that fills the context is cut. Raises ContextFull before its first token if there is
        hardly any room.
        """
        if self._pending is None:
            raise EngineError("a prompt must come before its answer")
        if said:
            yield from self._feed([tuple(said)])
        room = self._capacity - self.length
        if room < min(limit - len(said), LEAST_ANSWER_TOKENS):
            raise ContextFull(
                f"the context of {self._capacity} tokens has room for {room} tokens of an answer"
            )
        limit = min(limit, len(said) + room)
        ids, written, logits = self._tokenizer.ids, list(said), self._pending
        recent = RecentTokens(penalised(written))
        self._pending = None
        cut = True

        def next_row() -> TokenRow:
            return TokenRow(settings, recent, self.slot, (1.0, self._rng.random()), written=True)

        drawn: SampledToken | None = None
        if len(written) < limit and not stopped():
            drawn = yield SampleToken(logits, next_row())
        while drawn is not None:
            if drawn.token in ids.answer_ends:
                cut = False
                break
            if speech is not None:
                yield from speech.continue_text()
            recent.append(drawn.token)
            recent.shorten(len(penalised([*written, drawn.token])))
            draw = next_row() if len(written) + 1 < limit else None
            fed = yield from self._write(drawn.token, written, on_text, speech, draw)
            drawn = None if stopped() else fed.drawn
        if speech is not None:
            yield from speech.finish(text_ends=not cut)
        answer = WrittenAnswer(
            self._tokenizer.decode(written), tuple(written), cut, stopped=stopped()
        )
        self._end_answer(written, spoken=speech is not None and not answer.stopped)
        return answer

    def greet(
        self,
        words: Sequence[int],
        on_text: Callable[[str], None] = lambda _text: None,
        stopped: Callable[[], bool] = lambda: False,
        speech: AnswerSpeech | None = None,
        said: int = 0,
    ) -> Steps[WrittenAnswer]:
        """Write the tokens `words` as a turn before the user's first; `speech` speaks it.

        Another worker has spoken the first `said` of them.
        """
        yield from self.open_greeting()
        written = list(words[:said])
        if written:
            yield from self._feed([tuple(written)])
        while len(written) < len(words) and not stopped():
            if speech is not None:
                yield from speech.continue_text()
            yield from self._write(words[len(written)], written, on_text, speech)
        cut = len(written) < len(words)
        if speech is not None:
            yield from speech.finish(text_ends=not cut)
        self._pending = None
        self._opening = NEXT_USER_OPENING
        self.protect()
        return WrittenAnswer(self._tokenizer.decode(written), tuple(written), cut)

    def _end_answer(self, written: Sequence[int], *, spoken: bool) -> None:
        self._opening = NEXT_USER_OPENING
        if spoken and written:
            self.window = self.window.add_spoken_answer(self._tokenizer.encoded_length(written))

    def _write(
        self,
        token: int,
        written: list[int],
        on_text: Callable[[str], None],
        speech: AnswerSpeech | None,
        draw: TokenRow | None = None,
    ) -> Steps[FeedResult]:
        """Add `token` to the answer, and `draw` the next one."""
        written.append(token)
        on_text(self._tokenizer.decode(written))
        fed = yield from self.feed([(token,)], want_logits=draw is not None, draw=draw)
        if speech is not None:
            speech.add_token(token, fed.hidden)
        return fed

    def search_answer(
        self,
        settings: SamplingSettings,
        limit: int,
        on_step: Callable[[], None] = lambda: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Steps[WrittenAnswer]:
        """Write an answer of at most `limit` tokens by beam search.

        The text is complete when the search ends; `on_step` is called after each of its steps.
        """
        if self._pending is None:
            raise EngineError("a prompt must come before its answer")
        room = min(limit, self._capacity - self.length)
        if room < 1:
            raise ContextFull(f"the context of {self._capacity} tokens is full")
        logits, self._pending, ids = [self._pending], None, self._tokenizer.ids
        cursor = BeamCursor(self, self.length)
        search = BeamSearch(ids.chat_ends, room, self._rng, greedy=settings.greedy)
        while not stopped():
            written = [beam.tokens for beam in search.running]
            search.advance((yield RankTokens(logits, written, settings)))
            on_step()
            if search.done:
                break
            results = yield from cursor.feed([beam.tokens for beam in search.running])
            search.add_states([result.hidden for result in results])
            logits = [result.logits for result in results if result.logits is not None]
        best = search.best
        cut = not best.tokens or best.tokens[-1] not in ids.chat_ends
        tokens = best.tokens if cut else best.tokens[:-1]
        states = list(best.states[: len(tokens)])
        if len(states) < len(tokens):
            [result] = yield from cursor.feed([tokens])
            states.append(result.hidden)
        return WrittenAnswer(self._tokenizer.decode(tokens), tokens, cut, tuple(states))

    def speak_answer(self, answer: WrittenAnswer, speech: AnswerSpeech) -> Steps[None]:
        """Speak an answer of `search_answer`, up to the mark that ends its speech."""
        end = _last_index(answer.tokens, self._tokenizer.ids.tts_eos)
        yield from speech.speak_text(list(answer.tokens[:end]), list(answer.states[:end]))

    def bookmark(self) -> Bookmark:
        return Bookmark(self.length, self._pending, self._opening, self.window)

    def rollback(self, mark: Bookmark) -> None:
        gone = self.window.dropped - mark.window.dropped
        self.window = mark.window.without(gone)
        self.length = max(mark.length - gone, self.window.protected)
        self._pending, self._opening = mark.pending, mark.opening

    def _feed_text(
        self, text: str, parts: Sequence[PromptPart], *, full_attention: bool = False
    ) -> Steps[FeedResult]:
        pieces = yield from embed_prompt(
            self._tokenizer, text, parts, full_attention=full_attention
        )
        return (yield from self._feed(pieces))

    def _feed(self, pieces: Sequence[Piece]) -> Steps[FeedResult]:
        fed = yield from self.feed(pieces)
        self._pending = fed.logits
        return fed


def _last_index(tokens: Sequence[int], token: int) -> int:
    """Where `token` is last; the length if it is not there."""
    return max((n for n, other in enumerate(tokens) if other == token), default=len(tokens))
