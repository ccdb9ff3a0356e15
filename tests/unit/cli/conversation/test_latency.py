"""Latency arithmetic."""

import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.conversation.latency import (
    LatencySpread,
    SendLog,
    UnitLatency,
    hop_spread,
    percentile,
)
from antiphon.client.duplex import PARSER, Unit
from antiphon.shared_schemas.messages.duplex import Result


def unit(current_time: int, received_at: float, **fields: Any) -> Unit:
    data = {"type": "result", "is_listen": True, "current_time": current_time, **fields}
    message = PARSER.parse(orjson.dumps(data).decode())
    assert isinstance(message, Result)
    return Unit(message=message, audio=np.zeros(0, np.float32), received_at=received_at)


def test_a_result_belongs_to_the_chunk_it_answers() -> None:
    log = SendLog()
    for second in range(1, 4):
        log.add(1000, 100.0 + second)
    latency = UnitLatency.of(unit(2000, 102.25), log)
    assert latency is not None
    assert latency.total == pytest.approx(250)


def test_skipped_chunks_do_not_shift_the_others() -> None:
    log = SendLog()
    for second in range(1, 5):
        log.add(1000, float(second))
    assert log.sent_at(4000) == 4.0


def test_a_unit_of_two_half_chunks_counts_from_the_second() -> None:
    log = SendLog()
    for number in range(1, 5):
        log.add(500, number / 2)
    assert log.sent_at(1000) == 1.0


def test_a_chunk_that_was_not_sent_has_no_latency() -> None:
    log = SendLog()
    assert UnitLatency.of(unit(1000, 1.0), log) is None
    log.add(1000, 1.0)
    assert UnitLatency.of(unit(2000, 2.0), log) is None


def test_the_hops_add_up_to_the_total() -> None:
    log = SendLog()
    log.add(1000, 10.0)
    timing = {"edge_to_worker_ms": 2.0, "engine_ms": 40.0, "worker_to_edge_ms": 1.0}
    latency = UnitLatency.of(unit(1000, 10.050, timing=timing), log)
    assert latency is not None
    assert (latency.to_worker, latency.engine) == (2.0, 40.0)
    assert latency.outward == pytest.approx(8.0)


def test_without_timing_there_are_no_hops() -> None:
    log = SendLog()
    log.add(1000, 10.0)
    latency = UnitLatency.of(unit(1000, 10.050), log)
    assert latency is not None
    assert latency.outward is None
    for hop in ("engine", "to_worker", "outward"):
        assert hop_spread([latency], hop) is None


def test_percentiles_by_nearest_rank() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert percentile(values, 0.5) == 3.0
    assert percentile(values, 0.99) == 5.0
    assert percentile([7.0], 0.5) == 7.0
    assert percentile(list(range(1, 201)), 0.99) == 198
    assert math.isnan(percentile([], 0.5))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_and_bounds_its_share(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_summary_over_units() -> None:
    latencies = [
        UnitLatency(total=float(n), to_worker=1.0, engine=float(n) - 3) for n in range(10, 20)
    ]
    total = hop_spread(latencies, "total")
    assert total == LatencySpread(14.0, 19.0)
    assert hop_spread(latencies, "outward") == LatencySpread(2.0, 2.0)
    assert str(total) == "p50 14.0 ms, p99 19.0 ms"
    assert hop_spread([], "total") is None
