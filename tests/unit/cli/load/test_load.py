"""The arithmetic of `antiphon bench`: due times, late and lost requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from antiphon.cli.load.plan import (
    PERCENTILES,
    LoadLog,
    LoadPlan,
    LoadRequest,
    LoadSummary,
    LoadTimes,
    UserKind,
    percentiles,
)
from antiphon.cli.load.report import show
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.main import app
from antiphon.cli.terminal import Terminal
from antiphon.shared_schemas.audio import INPUT_RATE


def plan(*kinds: UserKind, sessions: int = 4, seconds: float = 10.0) -> LoadPlan:
    return LoadPlan(
        kinds=kinds or (UserKind.AUDIO,), sessions=sessions, seconds=seconds, warm_up_s=2
    )


def answered(
    due_at: float, sent_at: float, answered_at: float, kind: UserKind = UserKind.AUDIO
) -> LoadRequest:
    return LoadRequest(kind, due_at, due_at, sent_at, answered_at)


@given(
    number=st.integers(0, 500),
    period_s=st.floats(0.5, 20),
    seconds=st.floats(1, 60),
    start=st.floats(0, 1e6),
)
def test_everything_due_is_on_the_users_grid(
    number: int, period_s: float, seconds: float, start: float
) -> None:
    times = LoadTimes.of(plan(seconds=seconds), start)
    dues = list(times.dues(number, period_s))
    assert all(times.start <= due < times.end + 1e-6 for due in dues)
    assert np.allclose(np.diff(dues), period_s, atol=1e-6)
    assert abs(len(dues) - (times.end - times.start) / period_s) < 1


def test_users_spread_over_the_second() -> None:
    times = LoadTimes.of(plan(), 100.0)
    phases = sorted(next(times.dues(number, 1.0)) % 1 for number in range(50))
    assert max(np.diff(phases)) < 0.05


def test_requests_are_planned_before_the_start() -> None:
    log, times = LoadLog(), LoadTimes.of(plan(UserKind.AUDIO, UserKind.CHAT), 50.0)
    log.plan_requests(plan(UserKind.AUDIO, UserKind.CHAT), times)
    assert [user[0].kind for user in log.users] == [UserKind.AUDIO, UserKind.CHAT] * 2
    summary = LoadSummary.of(m for m in log.measured(times) if m.kind is UserKind.AUDIO)
    assert (summary.due, summary.lost, summary.latency_ms, summary.worst_ms) == (20, 20, {}, [])


def test_neither_the_warm_up_nor_the_last_requests_are_measured() -> None:
    """The last one keeps each session open until the measurement is over."""
    log, times = LoadLog(), LoadTimes.of(plan(sessions=1), 50.0)
    log.plan_requests(plan(sessions=1), times)
    assert len(log.users[0]) == 13
    assert [m.due_at for m in log.measured(times)] == [52.0 + n for n in range(10)]


def test_a_stall_counts_for_every_request_that_it_delayed() -> None:
    """Ten answers of 10 ms each, but nothing could be sent from 2 to 7: five chunks were late."""
    requests = [
        answered(due, sent := max(due, 7.0) if due >= 2 else due, sent + 0.010)
        for due in (float(n) for n in range(10))
    ]
    summary = LoadSummary.of(requests)
    assert summary.latency_ms == {
        "p50": 10.0,
        "p90": 4010.0,
        "p99": 5010.0,
        "p99_9": 5010.0,
        "max": 5010.0,
    }
    assert summary.worst_ms == [
        10.0,
        10.0,
        *(5010.0 - 1000 * n for n in range(5)),
        10.0,
        10.0,
        10.0,
    ]
    assert all(type(worst) is float for worst in summary.worst_ms), "they are written as JSON"
    assert (summary.late, summary.lost) == (5, 0)
    assert summary.sent_late_ms["max"] == 5000.0


def test_an_answer_is_timed_from_the_end_of_the_question() -> None:
    request = LoadRequest(UserKind.HALF_DUPLEX, 10.0, 13.5, 10.0, 15.0)
    assert request.latency_ms == pytest.approx(1500)
    assert LoadSummary.of([request]).late == 0


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=300))
def test_percentiles_are_values_that_occurred(values: list[float]) -> None:
    found = percentiles(values)
    assert list(found.values()) == sorted(found.values())
    assert found["max"] == round(max(values), 1)
    assert set(found.values()) <= {round(value, 1) for value in values}


def test_percentiles_of_a_thousand_and_one() -> None:
    found = percentiles([float(n) for n in range(1, 1001)])
    assert found == {"p50": 500.0, "p90": 900.0, "p99": 990.0, "p99_9": 999.0, "max": 1000.0}


@pytest.mark.parametrize(("ratio", "chunks"), [(1.0, 3), (0.5, 6), (0.25, 12), (0.0, 1)])
def test_silence_fills_the_gaps_between_speech(ratio: float, chunks: int) -> None:
    speech = np.full(int(2.5 * INPUT_RATE), 0.3, np.float32)
    inputs = LoadInputs.of([speech], ratio)
    assert len(inputs.chunks) == chunks
    assert all(len(chunk) == INPUT_RATE for chunk in inputs.chunks)
    assert sum(bool(chunk.any()) for chunk in inputs.chunks) == (3 if ratio else 0)
    assert inputs.questions[0].speech_end_s == pytest.approx(2.5)
    assert inputs.chunk(1, 2) is inputs.chunks[3 % chunks]
    assert inputs.image[:2] == b"\xff\xd8"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kinds", "audio,opera"], "choose from audio, omni, half-duplex, chat"),
        (["--url", "ws://x", "--engine", "local"], "only one of them"),
        (["--sessions", "257"], "256 sessions at most"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], complaint: str) -> None:
    refused = CliRunner().invoke(app, ["bench", *arguments])
    assert refused.exit_code == 2
    assert complaint in refused.output


def test_an_unreachable_edge_is_reported_by_address(tmp_path: object) -> None:
    found = CliRunner().invoke(app, ["bench", "--url", "ws://127.0.0.1:1", "--sessions", "2"])
    assert found.exit_code == 1
    assert "Nothing was measured" in found.output
    assert "cannot connect to ws://127.0.0.1:1" in found.output


def test_the_report_fits_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    slow = dict.fromkeys(PERCENTILES, 12345.6)
    kind = {"due": 10000, "lost": 9999, "late": 9999, "latency_ms": slow, "sent_late_ms": slow}
    report = {
        "plan": {"sessions": 256, "seconds": 30.0},
        "simulated": False,
        "kinds": {"half-duplex": kind, "chat": kind | {"latency_ms": {}}},
        "unserved": 0,
        "failures": {},
        "server_cpu_ms_per_session_s": None,
    }
    show(report, Terminal(width=80))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    header = next(line for line in lines if line.startswith("kind"))
    assert header.split()[-6:] == ["p90", "p99", "p99.9", "max", "sent", "late"]
    assert max(map(len, lines)) <= 80
