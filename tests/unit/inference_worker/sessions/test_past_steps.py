"""Units and turns that are stored for recovery."""

import numpy as np
import pytest

from antiphon.inference_worker.engines.types import PastTurn, PastUnit
from antiphon.inference_worker.sessions.conversation_past import (
    FinishedStep,
    StepT,
    decode_steps,
    encode_steps,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.entries import PastSteps, StreamPosition, pack, unpack


def sound(samples: int) -> Samples:
    return np.random.default_rng(samples).uniform(-1, 1, samples).astype(np.float32)


def finished(step: StepT | None, n: int) -> FinishedStep[StepT]:
    return FinishedStep(step, StreamPosition(5, 1, n), StreamPosition(5, 2, n + 1), n * 1000)


UNITS = [
    PastUnit(audio=sound(1600), is_listen=True, text="", end_of_turn=False, memo={"n": [1]}),
    PastUnit(
        audio=sound(800),
        frames=(b"one", b"two"),
        is_listen=False,
        text="Hi",
        end_of_turn=True,
        played_ms=20.5,
        memo={"n": [2]},
    ),
    PastUnit(audio=None, frames=(b"three",), is_listen=True, text="", end_of_turn=False),
]


@pytest.mark.parametrize("with_audio", [True, False])
def test_units_are_read_as_they_were_stored(*, with_audio: bool) -> None:
    batches = [UNITS, UNITS[:1]]
    stored = []
    for units in batches:
        entry = encode_steps(
            [finished(unit, n) for n, unit in enumerate(units, start=1)], with_audio=with_audio
        )
        pairs = pack(entry)
        read = unpack(dict(zip(pairs[::2], pairs[1::2], strict=True)))
        assert isinstance(read, PastSteps)
        assert (read.last_input, read.last_output, read.count) == (
            f"5001-{len(units)}",
            f"5002-{len(units) + 1}",
            len(units) * 1000,
        )
        stored.append(read)
    given = [unit for units in batches for unit in units]
    for before, after in zip(given, decode_steps(stored, PastUnit), strict=True):
        assert (before.is_listen, before.text, before.end_of_turn, before.played_ms) == (
            after.is_listen,
            after.text,
            after.end_of_turn,
            after.played_ms,
        )
        assert before.memo == after.memo
        assert after.frames == (before.frames if with_audio else ())
        if with_audio and before.audio is not None:
            assert after.audio is not None
            assert np.allclose(before.audio, after.audio, atol=2**-15)
        else:
            assert after.audio is None


def test_a_failed_turn_is_no_turn() -> None:
    turn = PastTurn(audio=sound(160), text="Yes.", memo={"tokens": [7]})
    entry = encode_steps([finished(turn, 1), finished(None, 2)], with_audio=True)
    (read,) = decode_steps([entry], PastTurn)
    assert (read.text, read.memo, entry.last_input) == ("Yes.", {"tokens": [7]}, "5001-2")
    nothing: list[FinishedStep[PastTurn]] = [finished(None, 3)]
    assert not list(decode_steps([encode_steps(nothing, with_audio=True)], PastTurn))
