"""Rebuilds the context of a session that ran on another worker: feeds its past, samples nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.conversations.duplex import (
    DuplexConversation,
    UnitMemo,
)
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpokenPiece
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import ContextUnit
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds, Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.types import PastUnit

FLUSH_TOKENS = 512
"""Units are fed together up to about this many tokens."""


@dataclass(frozen=True, slots=True)
class PreparedUnit:
    """A past unit with its log-mel, its images and its memo."""

    mel: Tensor | None
    images: Sequence[SlicedImage]
    memo: UnitMemo


@dataclass(slots=True)
class _Batch:
    """Units to feed together, and those of them whose speech is rebuilt."""

    pieces: list[Any] = field(default_factory=list)
    closing: list[ContextUnit] = field(default_factory=list)
    spoken: list[tuple[int, UnitMemo]] = field(default_factory=list)

    @property
    def length(self) -> int:
        return sum(map(len, self.pieces))


def rebuild_context(
    session: DuplexConversation, past: Sequence[PreparedUnit], ids: SpecialIds
) -> Steps[None]:
    """Feed the units of `past`. A sliding window slides as it did before.

    The speech of an unfinished turn is fed to the speech model, one piece per unit.
    """
    first_spoken = speech_context_start(
        [prepared.memo for prepared in past], session.speech.capacity
    )
    batch = _Batch()
    slides = session.options.window != "off"
    for index, prepared in enumerate(past):
        before = batch.length
        batch.pieces.append((ids.unit,))
        batch.pieces += yield from session.image_pieces(prepared.images)
        if prepared.mel is not None:
            batch.pieces.append((yield from session.audio_input.encode(prepared.mel)))
        if index >= first_spoken and prepared.memo.spoken is not None:
            start = batch.length + len(prepared.memo.fed) - prepared.memo.spoken
            batch.spoken.append((start, prepared.memo))
        batch.pieces.append(_unit_ending(prepared.memo, ids.unit_end))
        batch.closing.append(ContextUnit(batch.length - before, tuple(prepared.memo.words)))
        _record_unit(session, prepared.memo)
        if slides or batch.length >= FLUSH_TOKENS:
            yield from _flush(session, batch)
            batch = _Batch()
    yield from _flush(session, batch)


def speech_context_start(memos: Sequence[UnitMemo], capacity: int) -> int:
    """Index of the first unit whose speech is in the context at the end; `len(memos)` if there is none."""
    if not memos or not 0 < memos[-1].speech_length <= capacity:
        return len(memos)
    before: int | None = None
    """Spoken units before the one that began the context again, which are in it too."""
    for index in reversed(range(len(memos))):
        memo = memos[index]
        if memo.spoken is not None:
            if before is not None:
                before -= 1
            elif memo.fed_again:
                before = memo.fed_again
                continue
            if before == 0 or memo.speech_start == 0:
                return index
        if memo.speech_length == 0:
            break
    return len(memos)


def unfinished_turn_codes(memos: Sequence[UnitMemo]) -> list[list[int]]:
    """Codes of the unfinished turn, unit by unit."""
    codes: list[list[int]] = []
    for memo in reversed(memos):
        if memo.restarts_voice or (memo.spoken is not None and memo.speech_length == 0):
            break
        if memo.spoken is not None:
            codes.insert(0, memo.codes)
    return codes


def memo_of(past: PastUnit, tokenizer: Tokenizer) -> UnitMemo:
    """The memo of the unit; for a unit of another engine, a memo made from its text."""
    if "fed" in past.memo:
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


def _unit_ending(memo: UnitMemo, end: int) -> tuple[int, ...]:
    ending = () if memo.terminator is None else (memo.terminator,)
    return (*memo.fed, *ending, end)


def _record_unit(session: DuplexConversation, memo: UnitMemo) -> None:
    session.history.extend(memo.chosen)
    session.turn_open = memo.turn_open
    session.skip_greeting(memo.greeting_left)
    session.units_prefilled += 1
    session.units_generated += 1


def _flush(session: DuplexConversation, batch: _Batch) -> Steps[None]:
    if batch.pieces:
        states = yield from session.feed_for_states(batch.pieces)
        for start, memo in batch.spoken:
            count = memo.spoken or 0
            tokens = memo.fed[len(memo.fed) - count :]
            spoken = SpokenPiece(tokens, list(states[start : start + count]), memo.codes)
            yield from session.speech.append_codes(spoken)
    for unit in batch.closing:
        yield from session.close_unit(unit)
