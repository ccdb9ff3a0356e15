"""What the recogniser understood, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from antiphon.inference_worker.engines.local.chinese.script import has_han, joined

_DOUBTFUL = -0.5
_LEAST_WORDS = 3
_VERY_DOUBTFUL = -0.7
_DOUBTFUL_CHINESE = -0.9
_LEAST_TOKENS = 8
_LEAST_CERTAIN_CHINESE = -0.5
"""Mean log probabilities of a token, from so many words or tokens: the network is never sure of a single
word, and many names are strange to it. docs/performance.md has what was measured."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Text, empty if no word was recognised, with the log probability of all its `tokens`."""

    text: str = ""
    log_probability: float = 0.0
    tokens: int = 0

    @property
    def doubtful(self) -> bool:
        """The words are improbable: probably they were said in another language, or not at all."""
        words, mean = len(self.text.split()), self.log_probability / max(1, self.tokens)
        if has_han(self.text):
            return self.tokens >= _LEAST_WORDS and mean < _DOUBTFUL_CHINESE
        if words >= _LEAST_WORDS and mean < _DOUBTFUL:
            return True
        return self.tokens >= _LEAST_TOKENS and mean < _VERY_DOUBTFUL

    @property
    def certainty(self) -> float:
        """The mean log probability of a token. Whisper is less sure of Chinese than Moonshine of English."""
        mean = self.log_probability / max(1, self.tokens)
        return max(mean, _LEAST_CERTAIN_CHINESE) if has_han(self.text) else mean

    def after(self, pieces: Iterable[Transcript]) -> Transcript:
        """The whole of `pieces` and this one."""
        parts = [part for part in (*pieces, self) if part.text]
        return Transcript(
            joined(part.text for part in parts),
            sum(part.log_probability for part in parts),
            sum(part.tokens for part in parts),
        )

    def written(self, text: str) -> Transcript:
        """The same in other words."""
        return replace(self, text=text)
