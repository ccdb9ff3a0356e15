"""What the result of a unit says about the units before it, so that an edge remembers none of them."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.unit_result import UnitResult, user_transcript

_FORECAST_MS = 10_000
"""A new worker needs the results of this time to continue."""

_MIN_INCREASES = 3
"""In this time. A history that is read at once is one increase, and says nothing about the next seconds."""

_NOTICE_S = 30.0
"""How long before the context is full the client is warned."""


class UnitSequence:
    """The units of one session: their numbers, words without audio, and the forecast.

    `context_tokens`: how many the engine's context has.
    """

    def __init__(self, context_tokens: int) -> None:
        self._context_tokens = context_tokens
        self._unit = 0
        self._turn = 0
        self._speaking = False
        self._text = ""
        self._user_text = ""
        self._forecast = ContextForecast(context_tokens)

    def next(self, result: UnitResult) -> dict[str, Any]:
        """The fields of the next result."""
        if not result.is_listen:
            self._turn += not self._speaking
        fields = {
            "unit": self._unit,
            "turn": self._turn,
            "text_before": self._text,
            "user_text_before": self._user_text,
            "context_left_s": self._forecast.add(result.current_time, result.kv_cache_length),
            "context_forecast": self._forecast.on,
            "context_tokens": self._context_tokens,
        }
        self._enter(result)
        return fields

    def restore(self, results: Sequence[ResultOut]) -> None:
        """Continue after these results of an earlier worker: the newest ones, of ten seconds or more."""
        for result in results:
            self._forecast.add(result.current_time, result.kv_cache_length)
            self._forecast.on = result.context_forecast
            self._unit = result.unit
            self._turn = result.turn
            self._text = result.text_before
            self._user_text = result.user_text_before
            self._enter(result)

    def _enter(self, result: UnitResult | ResultOut) -> None:
        """The state after a unit."""
        self._unit += 1
        self._speaking = not (result.is_listen or result.end_of_turn)
        if self._speaking and not len(result.audio):
            self._text += result.text
            self._user_text = " ".join(filter(None, (self._user_text, user_transcript(result))))
        else:
            self._text = self._user_text = ""


class ContextForecast:
    """Predicts when a context of so many tokens is full, from its growth in the last ten seconds. It reports
    that once.

    A context that shrinks is a sliding one, which is never full. `on` is false once nothing follows.
    """

    def __init__(self, tokens: int) -> None:
        self.on = True
        self._capacity = tokens
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, at_ms: int, tokens: int) -> float | None:
        """How long the context lasts; None unless this must be reported now."""
        samples = self._samples
        if not self.on:
            return None
        if samples and tokens < samples[-1][1]:
            self.on = False
            return None
        samples.append((at_ms, tokens))
        while len(samples) > 1 and at_ms - samples[1][0] >= _FORECAST_MS:
            samples.popleft()
        begin_ms, begin = samples[0]
        increases = sum(after > before for (_, before), (_, after) in pairwise(samples))
        if at_ms - begin_ms < _FORECAST_MS or increases < _MIN_INCREASES:
            return None
        left_s = (self._capacity - tokens) * (at_ms - begin_ms) / 1000 / (tokens - begin)
        self.on = left_s > _NOTICE_S
        return None if self.on else round(max(0.0, left_s), 1)
