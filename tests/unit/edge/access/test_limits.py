"""Limits on input, connections and bytes."""

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from antiphon.edge.access.guards import AccessPolicy
from antiphon.edge.access.http_limits import (
    CHUNK_BURST,
    CONNECTION_BURST,
    CONNECTIONS_PER_S,
    REQUEST_BURST,
    REQUESTS_PER_S,
    HttpConnectionLimiter,
    RequestPace,
)
from antiphon.edge.access.limits import (
    SWEEP_EVERY,
    ByteBudget,
    ConnectionLimiter,
    InputBudget,
    TokenBucket,
)
from antiphon.edge.errors import BudgetExceeded, TooManyConnections
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from support.clock import Clock


def test_a_bucket_drains_and_refills() -> None:
    bucket = TokenBucket(capacity=10, rate=2, now=0)
    assert bucket.take(10, now=0)
    assert not bucket.take(1, now=0)
    assert bucket.take(4, now=2)
    assert not bucket.take(1, now=2)


def test_a_bucket_never_overflows() -> None:
    bucket = TokenBucket(capacity=10, rate=2, now=0)
    assert not bucket.take(11, now=1000)
    assert bucket.take(10, now=1000)


def test_a_refused_amount_costs_nothing() -> None:
    bucket = TokenBucket(capacity=10, rate=1, now=0)
    assert bucket.take(8, now=0)
    assert not bucket.take(5, now=0)
    assert bucket.take(2, now=0)


def test_real_time_audio_is_never_limited() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1e6, clock=clock)
    for _ in range(3600):
        budget.charge_message()
        budget.charge_audio(1.0, "audio")
        clock.now += 0.97  # a microphone clock that runs three per cent fast


def test_audio_may_run_ahead_up_to_the_limit() -> None:
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


@pytest.mark.parametrize("samples", [16_000, 320, 319, 160, 128])
def test_a_microphone_and_a_camera_are_never_limited(samples: int) -> None:
    """Chunks of one second, 20 ms, a little less, 10 ms, and of an AudioWorklet, for ten minutes each."""
    clock, limits = Clock(), EdgeSettings()
    rate, width = limits.input_messages_per_s, 4 * 4 // 3
    budget = InputBudget(limits.input_ahead_s, rate, limits.input_bytes_per_s, clock=clock)
    began, since_frame = clock.now, 0.0
    while clock.now < began + 600:
        since_frame += samples / 16_000
        frames = int(since_frame * 5)  # five pictures per second, and as many reports of playback
        since_frame -= frames / 5
        for _ in range(frames):
            budget.charge_message()
        budget.charge_bytes(width * samples + 60 * 1024 * frames + 100)
        budget.charge_chunk(samples / 16_000, frames)
        budget.charge_audio(samples / 16_000, "audio")
        clock.now += samples / 16_000


def test_a_flood_of_very_short_chunks_is_refused() -> None:
    budget = InputBudget(20, 50, 1e6, clock=Clock())
    for _ in range(201):
        budget.charge_chunk(1 / 16_000, 0)
    with pytest.raises(InvalidInput, match=r"50 messages .* chunks of 0\.01 s or more") as refused:
        budget.charge_chunk(1 / 16_000, 0)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE


def test_message_bursts() -> None:
    clock = Clock()
    budget = InputBudget(20, 5, 1e6, clock=clock)
    for _ in range(20):
        budget.charge_message()
    with pytest.raises(InvalidInput) as refused:
        budget.charge_message()
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    clock.now += 0.2
    budget.charge_message()


def test_a_whole_history_may_come_at_once() -> None:
    clock = Clock()
    budget = InputBudget(20, 5, 1e6, clock=clock, history=100)
    for _ in range(100):
        budget.charge_history()
    for _ in range(20):
        budget.charge_message()
    with pytest.raises(InvalidInput) as refused:
        budget.charge_history()
    assert refused.value.message == "more than 5 messages per second; message dropped: send fewer"
    clock.now += 1
    for _ in range(10):  # its own five, and those of other messages
        budget.charge_history()


def test_the_text_of_a_refusal_speaks_of_what_was_sent() -> None:
    budget = InputBudget(20, 5, 1e6, clock=Clock())
    with pytest.raises(InvalidInput, match="fewer camera frames"):
        budget.charge_chunk(1.0, 21)
    for _ in range(20):
        budget.charge_chunk(0.0, 0)
    with pytest.raises(InvalidInput) as refused:
        budget.charge_chunk(0.0, 0)
    assert "camera" not in refused.value.message


def test_byte_bursts() -> None:
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


def test_short_messages_cost_no_bytes() -> None:
    budget = InputBudget(20, 50, 1_000_000, clock=Clock())
    budget.charge_bytes(4_000_000)
    budget.charge_bytes(1024)


def test_the_largest_message_passes_at_any_rate() -> None:
    clock = Clock()
    budget = InputBudget(20, 50, 1024, largest=1_000_000, clock=clock)
    budget.charge_bytes(1_000_000)
    with pytest.raises(InvalidInput):
        budget.charge_bytes(1_000_000)
    clock.now += 1000
    budget.charge_bytes(1_000_000)


def test_a_call_with_a_camera_stays_within_the_defaults() -> None:
    """One second of audio and the largest frame per message, 20 s ahead at the start."""
    clock, limits = Clock(), EdgeSettings()
    budget = InputBudget(20, 50, limits.input_bytes_per_s, limits.max_message_bytes, clock)
    second = (64_000 + limits.max_frame_bytes) * 4 // 3 + 1000
    for _ in range(3600):
        budget.charge_bytes(second)
        clock.now += 1.0
    for _ in range(20):
        budget.charge_bytes((64_000 + 4 * 120_000) * 4 // 3 + 1000)


def test_open_connections() -> None:
    limiter = ConnectionLimiter(2, 0)
    with limiter.hold("a"):
        with limiter.hold("a"):
            with pytest.raises(TooManyConnections, match="2 connections at once"):
                limiter.hold("a").__enter__()
            with limiter.hold("b"):
                pass
        with limiter.hold("a"):
            pass


def test_an_error_releases_the_connection() -> None:
    limiter = ConnectionLimiter(1, 0)
    for _ in range(3):
        with pytest.raises(RuntimeError), limiter.hold("a"):
            raise RuntimeError


def test_connections_per_minute() -> None:
    clock = Clock()
    limiter = ConnectionLimiter(0, 60, clock)
    for _ in range(60):
        limiter.count("a")
    with pytest.raises(TooManyConnections, match="60 connections a minute"):
        limiter.count("a")
    limiter.count("b")
    clock.now += 1.0
    limiter.count("a")
    with pytest.raises(TooManyConnections):
        limiter.count("a")


def test_zero_disables_limits_and_none_is_not_counted() -> None:
    limiter = ConnectionLimiter(0, 0)
    for _ in range(5000):
        limiter.count("a")
    limiter = ConnectionLimiter(1, 1)
    for _ in range(3):
        limiter.count(None)
        with limiter.hold(None), limiter.hold(None):
            pass
    assert len(limiter) == 0


def test_old_clients_are_removed() -> None:
    clock = Clock()
    limiter = ConnectionLimiter(10, 60, clock)
    with limiter.hold("stays"):
        for number in range(20_000):
            clock.now += 1.0
            limiter.count(str(number))
        assert len(limiter) < 2500
        with limiter.hold("stays"):
            pass


def test_recent_clients_are_kept() -> None:
    clock = Clock()
    limiter = ConnectionLimiter(10, 1, clock)
    for number in range(5000):
        limiter.count(str(number))
    with pytest.raises(TooManyConnections):
        limiter.count("0")


def _limiter(at_once: int, clock: Clock | None = None) -> HttpConnectionLimiter:
    rejected = Counter("rejections", "For the test.", ["reason"], registry=CollectorRegistry())
    access = AccessPolicy(EdgeSettings(trusted_proxies=("10.0.0.0/8",)), "0.0.0.0")
    return HttpConnectionLimiter(
        10.0, 10.0, at_once, access.peer_limit_key, rejected, clock or Clock()
    )


def test_http_connections_are_capped() -> None:
    limiter = _limiter(2)
    here = [limiter.acquire("203.0.113.5") for _ in range(2)]
    with pytest.raises(OverflowError):
        limiter.acquire("203.0.113.5")
    assert limiter.acquire("203.0.113.6")
    here[0].release()
    assert len(limiter) == 2
    assert limiter.acquire("203.0.113.5")


def test_an_ipv6_network_counts_as_one_address() -> None:
    limiter = _limiter(1)
    limiter.acquire("2001:db8::1")
    with pytest.raises(OverflowError):
        limiter.acquire("2001:db8::2")
    assert limiter.acquire("2001:db8:0:1::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.1.2.3", ""])
def test_loopback_and_proxies_are_not_counted(host: str) -> None:
    limiter = _limiter(1)
    for _ in range(5):
        assert limiter.admit(host)
        limiter.acquire(host)
    assert len(limiter) == 0


def test_addresses_without_connections_are_forgotten() -> None:
    clock = Clock()
    limiter = _limiter(0, clock)
    for number in range(3 * SWEEP_EVERY):
        limiter.acquire(f"203.{number // 250}.0.{number % 250}").release()
        clock.now += 1
    assert len(limiter) == 0
    assert len(limiter._addresses) <= SWEEP_EVERY + 60


def test_an_address_opens_a_burst_of_connections_and_then_some_each_second() -> None:
    clock = Clock()
    limiter = _limiter(9, clock)
    assert [limiter.admit("203.0.113.5") for _ in range(CONNECTION_BURST + 1)][-2:] == [True, False]
    assert limiter.admit("203.0.113.6")
    clock.now += 1
    assert [limiter.admit("203.0.113.5") for _ in range(int(CONNECTIONS_PER_S) + 1)][-2:] == [
        True,
        False,
    ]


def test_without_a_cap_all_connections_are_admitted() -> None:
    limiter = _limiter(0)
    assert all(limiter.admit("203.0.113.5") for _ in range(CONNECTION_BURST + 1))


def test_a_connection_above_the_cap_is_not_admitted() -> None:
    limiter = _limiter(1)
    share = limiter.acquire("203.0.113.5")
    assert not limiter.admit("203.0.113.5")
    share.release()
    assert limiter.admit("203.0.113.5")


def test_small_chunks_are_counted_for_a_connection_and_for_its_address() -> None:
    limiter = _limiter(0)
    for _ in range(4):
        share = limiter.acquire("203.0.113.5")
        assert share.take_chunks(CHUNK_BURST)
        assert not share.take_chunks(1)
    assert not limiter.acquire("203.0.113.5").take_chunks(1), "the address has sent too many"
    assert limiter.acquire("203.0.113.6").take_chunks(1)
    local = limiter.acquire("127.0.0.1")
    assert local.take_chunks(CHUNK_BURST)
    assert not local.take_chunks(1)


def test_requests_above_the_burst_wait_for_the_rate_of_their_address() -> None:
    clock = Clock()
    pace = RequestPace(clock)
    assert [pace.delay("203.0.113.5") for _ in range(REQUEST_BURST)][-1] == 0
    waits = [pace.delay("203.0.113.5") for _ in range(3)]
    assert waits == pytest.approx([1 / REQUESTS_PER_S, 2 / REQUESTS_PER_S, 3 / REQUESTS_PER_S])
    assert pace.delay("203.0.113.6") == 0
    assert pace.delay(None) == 0
    with pytest.raises(TooManyConnections, match="requests a second"):
        waits.extend(pace.delay("203.0.113.5") for _ in range(2000))
    clock.now += 60
    assert pace.delay("203.0.113.5") == 0


def test_addresses_without_requests_are_forgotten() -> None:
    clock = Clock()
    pace = RequestPace(clock)
    for number in range(3 * SWEEP_EVERY):
        pace.delay(f"address {number}")
        clock.now += 1
    assert len(pace) <= SWEEP_EVERY + 60


def test_a_flood_is_logged_at_intervals() -> None:
    clock = Clock()
    limiter = _limiter(1, clock)
    limiter.acquire("203.0.113.5")
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            limiter.report("request_timeout")
        with pytest.raises(OverflowError):
            limiter.acquire("203.0.113.5")
        clock.now += 11
        limiter.report("request_timeout")
    assert [(line.get("request_timeout"), line.get("rate_limited")) for line in logs] == [
        (1, None),
        (5, 1),
    ]


MIB = 1024 * 1024


def test_a_rejected_request_takes_no_budget() -> None:
    budget = ByteBudget(10 * MIB)
    with budget.reserve() as one, budget.reserve() as other:
        one.add(6 * MIB)
        other.add(4 * MIB)
        with pytest.raises(BudgetExceeded, match="holds 10 MiB"):
            other.add(1)
        with budget.reserve() as small:
            small.add(MIB)
            with pytest.raises(BudgetExceeded):
                small.add(1)
        assert budget.held == 10 * MIB
    assert budget.held == 0


def test_chunks_count_like_one_request() -> None:
    budget = ByteBudget(2 * MIB)
    with budget.reserve() as one, budget.reserve() as other:
        one.add(1)
        for _ in range(31):
            other.add(64 * 1024)
        with pytest.raises(BudgetExceeded):
            other.add(64 * 1024)


def test_a_single_request_always_fits() -> None:
    budget = ByteBudget(1024)
    with budget.reserve() as one:
        one.add(MIB)
        one.add(MIB)
        with budget.reserve() as other, pytest.raises(BudgetExceeded):
            other.add(MIB + 1)
    assert budget.held == 0
