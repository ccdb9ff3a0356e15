"""The pace at which a client may send."""

from __future__ import annotations

import pytest

from antiphon.edge.limits import Bucket, InputBudget
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_fills() -> None:
    bucket = Bucket(capacity=10, rate=2, now=0)
    assert bucket.take(10, now=0)
    assert not bucket.take(1, now=0)
    assert bucket.take(4, now=2)
    assert not bucket.take(1, now=2)


def test_a_bucket_never_overflows() -> None:
    bucket = Bucket(capacity=10, rate=2, now=0)
    assert not bucket.take(11, now=1000)
    assert bucket.take(10, now=1000)


def test_a_refused_amount_costs_nothing() -> None:
    bucket = Bucket(capacity=10, rate=1, now=0)
    assert bucket.take(8, now=0)
    assert not bucket.take(5, now=0)
    assert bucket.take(2, now=0)


def test_audio_in_real_time_never_ends() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1e6, clock=clock)
    for _ in range(3600):
        budget.charge_message()
        budget.charge_audio(1.0, "audio")
        clock.now += 0.97  # a microphone clock that runs three per cent fast


def test_audio_may_run_ahead_and_no_further() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1e6, clock=clock)
    for _ in range(20):
        budget.charge_audio(1.0, "audio")
    with pytest.raises(InvalidInput) as refused:
        budget.charge_audio(1.0, "audio")
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    assert refused.value.field == "audio"
    clock.now += 1.0
    budget.charge_audio(1.0, "audio")


def test_messages_come_in_bursts_of_a_few_seconds() -> None:
    clock = Clock()
    budget = InputBudget(20, 5, 1e6, clock=clock)
    for _ in range(20):
        budget.charge_message()
    with pytest.raises(InvalidInput) as refused:
        budget.charge_message()
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    clock.now += 0.2
    budget.charge_message()


def test_bytes_come_in_bursts_and_then_at_their_rate() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1_000_000, clock=clock)
    for _ in range(4):
        budget.charge_bytes(1_000_000)
    with pytest.raises(InvalidInput, match="fewer or smaller messages") as refused:
        budget.charge_bytes(2_000)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    clock.now += 0.5
    budget.charge_bytes(500_000)
    with pytest.raises(InvalidInput):
        budget.charge_bytes(2_000)


def test_what_is_short_costs_no_bytes() -> None:
    budget = InputBudget(20, 50, 1_000_000, clock=Clock())
    budget.charge_bytes(4_000_000)
    budget.charge_bytes(1024)


def test_the_largest_message_passes_however_low_the_rate_is() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1024, largest=1_000_000, clock=clock)
    budget.charge_bytes(1_000_000)
    with pytest.raises(InvalidInput):
        budget.charge_bytes(1_000_000)
    clock.now += 1000
    budget.charge_bytes(1_000_000)


def test_a_call_with_a_camera_stays_within_the_defaults() -> None:
    """A second of sound and the largest frame in one message, 20 s of it ahead at the beginning."""
    clock, limits = Clock(), EdgeSettings()
    budget = InputBudget(20, 50, limits.input_bytes_per_s, limits.max_message_bytes, clock)
    second = (64_000 + limits.max_frame_bytes) * 4 // 3 + 1000
    for _ in range(3600):
        budget.charge_bytes(second)
        clock.now += 1.0
    for _ in range(20):
        budget.charge_bytes((64_000 + 4 * 120_000) * 4 // 3 + 1000)
