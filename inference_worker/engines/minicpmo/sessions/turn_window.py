"""The window of a half-duplex conversation: what leaves its cache when it is full."""

from __future__ import annotations

from dataclasses import dataclass, replace

WINDOW_HIGH_TOKENS, WINDOW_LOW_TOKENS = 8000, 6000


@dataclass(frozen=True, slots=True)
class TurnWindow:
    """The turns in a cache, behind the `protected` tokens of the system prompt and a greeting.

    A cache that is longer than `high` tokens loses its oldest ones until it has `low`. Whole turns leave
    it, or, if it `counts_as_reference`, as many tokens as the reference counts for them. The reference
    counts neither the first turn nor the opening of an answer, and an answer only if it was spoken to
    its end. So the tokens that leave the cache may end inside a turn.
    """

    high: int = WINDOW_HIGH_TOKENS
    low: int = WINDOW_LOW_TOKENS
    counts_as_reference: bool = True
    protected: int = 0
    dropped: int = 0
    """Tokens that have left the cache."""

    _starts: tuple[int, ...] = ()
    """Where each user turn begins in the cache."""

    _counted: tuple[int, ...] = ()
    """Tokens of each turn after the first, as the reference counts them."""

    _first_turn: bool = True
    _turn_is_open: bool = False
    """The last counted turn also counts what comes next."""

    def add_user_turn(self, start: int, tokens: int) -> TurnWindow:
        return replace(self._count(tokens), _starts=(*self._starts, start))

    def add_spoken_answer(self, tokens: int) -> TurnWindow:
        """Close the turn with an answer that was spoken to its end and has `tokens` as text."""
        return replace(self._count(tokens), _first_turn=False, _turn_is_open=False)

    def excess(self, length: int, room: int) -> int:
        """How many of the `length` tokens must leave the cache, so that it has at most `room`."""
        high = min(self.high, room)
        if not self.counts_as_reference:
            return self._excess_of_turns(length, high)
        gone = self._excess_as_counted(length, high)
        return gone if length - gone <= room else self._excess_of_turns(length, room)

    def without(self, tokens: int) -> TurnWindow:
        """The window after the oldest `tokens` that are not protected have left the cache."""
        starts = (start - tokens for start in self._starts)
        counted, left = list(self._counted), tokens
        while counted and left > 0:
            left -= counted.pop(0)
        return replace(
            self,
            dropped=self.dropped + tokens,
            _starts=tuple(start for start in starts if start >= self.protected),
            _counted=tuple(counted),
            _turn_is_open=self._turn_is_open and bool(counted),
        )

    def _count(self, tokens: int) -> TurnWindow:
        if self._first_turn:
            return self
        *before, last = self._counted if self._turn_is_open else (*self._counted, 0)
        return replace(self, _counted=(*before, last + tokens), _turn_is_open=True)

    def _low(self, high: int) -> int:
        return high * self.low // self.high

    def _excess_as_counted(self, length: int, high: int) -> int:
        gone = 0
        if length > high:
            for tokens in self._counted:
                if length - gone <= self._low(high) or length - gone - tokens < self.protected:
                    break
                gone += tokens
        return gone

    def _excess_of_turns(self, length: int, high: int) -> int:
        if length <= high:
            return 0
        kept = [
            start for start in self._starts if self.protected + length - start <= self._low(high)
        ]
        return (kept[0] if kept else length) - self.protected
