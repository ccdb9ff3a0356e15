"""Rebuild a conversation that another worker ran: feed what was heard and said, choose nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference_worker.engines.minicpmo.duplex import DuplexSession
from inference_worker.engines.minicpmo.images import Picture
from inference_worker.engines.minicpmo.memo import UnitMemo
from inference_worker.engines.minicpmo.steps import Steps
from inference_worker.engines.minicpmo.tokenizer import Tokenizer
from inference_worker.engines.minicpmo.window import Unit
from inference_worker.engines.types import PastUnit

if TYPE_CHECKING:
    from torch import Tensor

FLUSH_TOKENS = 512
"""Units are fed together up to about this many tokens."""


@dataclass(frozen=True, slots=True)
class HeardUnit:
    """A past unit made ready: its log-mel and pictures, and what was decided."""

    mel: Tensor | None
    pictures: Sequence[Picture]
    memo: UnitMemo


def replay(session: DuplexSession, past: Sequence[HeardUnit], unit: int, end: int) -> Steps[None]:
    """Feed `past` between the ids `unit` and `end`; a sliding window slides as it did."""
    pieces: list[Any] = []
    closing: list[Unit] = []
    slides = session.settings.window.mode != "off"
    for heard in past:
        before = sum(map(len, pieces))
        pieces.append((unit,))
        pieces += yield from session.see(heard.pictures)
        if heard.mel is not None:
            pieces.append((yield from session.ears.hear(heard.mel)))
        pieces.append(_said(heard.memo, end))
        closing.append(Unit(sum(map(len, pieces)) - before, tuple(heard.memo.words)))
        _remember(session, heard.memo)
        if slides or sum(map(len, pieces)) >= FLUSH_TOKENS:
            yield from _flush(session, pieces, closing)
            pieces, closing = [], []
    yield from _flush(session, pieces, closing)


def past_memo(past: PastUnit, tokenizer: Tokenizer) -> UnitMemo:
    """The unit's own memo; for a unit of another engine, tokens made from its text."""
    if past.memo:
        return UnitMemo.model_validate(past.memo)
    ids = tokenizer.ids
    if past.is_listen:
        return UnitMemo(terminator=ids.listen)
    words = tokenizer.encode(past.text)
    ending = [ids.turn_eos] if past.end_of_turn else []
    return UnitMemo(
        fed=[ids.speak, *words, *ending],
        terminator=ids.chunk_eos,
        words=words,
        chosen=[ids.speak, *words, *ending],
        turn_open=not past.end_of_turn,
    )


def _said(memo: UnitMemo, end: int) -> tuple[int, ...]:
    ending = () if memo.terminator is None else (memo.terminator,)
    return (*memo.fed, *ending, end)


def _remember(session: DuplexSession, memo: UnitMemo) -> None:
    session.history += memo.chosen
    session.turn_open = memo.turn_open
    session.units_heard += 1
    session.units_generated += 1


def _flush(session: DuplexSession, pieces: Sequence[Any], closing: Sequence[Unit]) -> Steps[None]:
    if pieces:
        yield from session.feed(pieces, want_logits=False)
    for unit in closing:
        yield from session.close_unit(unit)
