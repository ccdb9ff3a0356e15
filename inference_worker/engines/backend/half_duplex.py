"""Half-duplex sessions on servers that keep no conversation: it is sent with each turn."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import Delta, EngineError, PastTurn
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, Role, TextPart

KEPT_TURNS = 8
"""The newest turns that are sent with their sound; of older ones only the answers are sent."""
_KEPT_SAMPLES = 120 * INPUT_RATE
"""Most sound of earlier turns. `llama-omni-server` accepts messages of up to 16 MiB."""


@dataclass(slots=True)
class _Turn:
    utterance: Samples | None
    answer: str = ""


class TurnHistory:
    """Begins with the system message."""

    def __init__(self, system: ConversationMessage) -> None:
        self._system = system
        self._turns: list[_Turn] = []

    def add(self, utterance: Samples) -> None:
        self._turns.append(_Turn(utterance))

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
        for turn, sound in zip(past, self._sounds(past, earlier_sound=earlier_sound), strict=True):
            if sound is not None:
                yield ConversationMessage(Role.USER, (sound,))
            if turn.answer:
                yield ConversationMessage(Role.ASSISTANT, (TextPart(turn.answer),))
        assert newest.utterance is not None, "only past turns lack it"
        yield ConversationMessage(Role.USER, (AudioPart(float_bytes(newest.utterance)),))

    @staticmethod
    def _sounds(past: Sequence[_Turn], *, earlier_sound: bool) -> list[AudioPart | None]:
        """The sound of each turn, or None if it is not sent."""
        sounds: list[AudioPart | None] = []
        left = _KEPT_SAMPLES if earlier_sound else 0
        for turn in reversed(past):
            sound = turn.utterance if len(sounds) < KEPT_TURNS else None
            left -= 0 if sound is None else len(sound)
            sounds.append(None if sound is None or left < 0 else AudioPart(float_bytes(sound)))
        return sounds[::-1]


class HistoryView(HalfDuplexView):
    """Keeps the conversation, and asks the server for each answer."""

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
        self._history, self._config, self._voice = TurnHistory(system), config, ref_audio
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
