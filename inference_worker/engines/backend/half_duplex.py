"""Half-duplex sessions on servers that keep no conversation: it is sent with each turn."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import Delta, EngineError, PastTurn
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, Role, TextPart

KEPT_TURNS = 8
"""The newest turns that are sent with their sound; of older ones only the answers are sent."""
_KEPT_SAMPLES = 120 * INPUT_RATE
"""Most sound of earlier turns. `llama-omni-server` accepts messages of up to 16 MiB."""

_TOKENS_PER_MESSAGE = 6
_TOKENS_PER_S = 10
"""Of sound, for MiniCPM-o 4.5."""
_BYTES_PER_TOKEN = 3.0
"""A low estimate for English, whose tokens have more than four letters, and for Chinese."""


@dataclass(slots=True)
class _Turn:
    """`utterance`: None if its sound is not sent any more."""

    utterance: Samples | None
    answer: str = ""

    @property
    def tokens(self) -> float:
        """An estimate."""
        samples = 0 if self.utterance is None else len(self.utterance)
        return 2 * _TOKENS_PER_MESSAGE + _sound_tokens(samples) + _text_tokens(self.answer)


class TurnHistory:
    """Begins with the system message. Without the oldest turns, it has at most `most_tokens`."""

    def __init__(self, system: ConversationMessage, most_tokens: float) -> None:
        self._system = system
        self._most_tokens = most_tokens - _message_tokens(system)
        self._turns: list[_Turn] = []

    def add(self, utterance: Samples) -> None:
        """Drops the sound and the turns that are not sent any more."""
        left = _KEPT_SAMPLES
        for age, turn in enumerate(reversed(self._turns)):
            left -= 0 if turn.utterance is None else len(turn.utterance)
            if age >= KEPT_TURNS or left < 0:
                turn.utterance = None
        self._turns.append(_Turn(utterance))
        tokens = sum(turn.tokens for turn in self._turns)
        while tokens > self._most_tokens and len(self._turns) > 1:
            tokens -= self._turns.pop(0).tokens

    def answered(self, text: str) -> None:
        """The answer to the newest utterance."""
        self._turns[-1].answer = text

    def drop_newest(self) -> None:
        if self._turns:
            self._turns.pop()

    def restore(self, turns: Sequence[PastTurn]) -> None:
        self._turns = [_Turn(turn.audio, turn.text) for turn in turns]

    def messages(self, *, earlier_sound: bool = True) -> list[ConversationMessage]:
        """All turns; the newest one has no answer yet. Without `earlier_sound`, users' earlier turns are
        left out.
        """
        return list(self._messages(earlier_sound=earlier_sound))

    def _messages(self, *, earlier_sound: bool) -> Iterator[ConversationMessage]:
        yield self._system
        *past, newest = self._turns
        for turn in past:
            if turn.utterance is not None and earlier_sound:
                yield ConversationMessage(Role.USER, (AudioPart(float_bytes(turn.utterance)),))
            if turn.answer:
                yield ConversationMessage(Role.ASSISTANT, (TextPart(turn.answer),))
        assert newest.utterance is not None, "only past turns lack it"
        yield ConversationMessage(Role.USER, (AudioPart(float_bytes(newest.utterance)),))


def _sound_tokens(samples: int) -> float:
    return samples / INPUT_RATE * _TOKENS_PER_S


def _text_tokens(text: str) -> float:
    return len(text.encode()) / _BYTES_PER_TOKEN


def _message_tokens(message: ConversationMessage) -> float:
    tokens = float(_TOKENS_PER_MESSAGE)
    for part in message.parts:
        if isinstance(part, TextPart):
            tokens += _text_tokens(part.text)
        elif isinstance(part, AudioPart):
            tokens += _sound_tokens(len(part.samples()))
    return tokens


class HistoryView(HalfDuplexView):
    """Keeps the conversation, and asks the server for each answer."""

    _options: BackendOptions
    _context_tokens: int
    _history: TurnHistory | None = None
    _config = HalfDuplexConfig()
    _voice: Samples | None = None
    _tokens_before = 0

    @abstractmethod
    def _answers(self, history: TurnHistory) -> Iterator[Delta]:
        """The answer to the newest utterance."""

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        voice = 0.0 if ref_audio is None else _sound_tokens(len(ref_audio))
        room = self._options.context_tokens - config.generation.max_new_tokens - voice
        self._history, self._config, self._voice = TurnHistory(system, room), config, ref_audio
        return self.kv_cache_length

    def prefill(self, utterance: Samples) -> None:
        """Keep the utterance for `generate`."""
        self._tokens_before = self._context_tokens
        self._known_history().add(utterance)

    def generate(self) -> Iterator[Delta]:
        said, history = "", self._known_history()
        try:
            for delta in self._answers(history):
                said += delta.text
                yield delta
        finally:
            history.answered(said)

    def memo(self) -> dict[str, Any]:
        return {}

    def rollback(self) -> None:
        self._known_history().drop_newest()
        self._context_tokens = self._tokens_before

    def replay(self, turns: Sequence[PastTurn]) -> None:
        self._known_history().restore(turns)

    def _known_history(self) -> TurnHistory:
        if self._history is None:
            raise EngineError("the session is not prepared")
        return self._history
