import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.broker.eta import BASELINES, ENOUGH_SAMPLES, SessionLengths, estimate_waits
from antiphon.shared_schemas.registry import RunningSession, WorkerRow
from antiphon.shared_schemas.states import SessionKind, SessionState, WaitReason, WorkerState

AUDIO, OMNI, CHAT = SessionKind.AUDIO_DUPLEX, SessionKind.OMNI_DUPLEX, SessionKind.CHAT
LENGTHS = SessionLengths(baselines=dict(BASELINES))


def worker(
    name: str = "w",
    *kinds: SessionKind,
    slots: int = 1,
    open_: bool = True,
    state: WorkerState = WorkerState.IDLE,
) -> WorkerRow:
    return WorkerRow(
        id=name,
        engine="e",
        model="m",
        kinds=frozenset(kinds or SessionKind),
        slots=slots,
        used=0,
        state=state,
        device="cpu",
        address="",
        beat_at=0,
        open=open_,
    )


def job(name: str = "w", remaining_s: float = 0.0) -> RunningSession:
    return RunningSession(
        sid="s",
        kind=AUDIO,
        worker=name,
        state=SessionState.ACTIVE,
        assigned_at=0,
        elapsed_s=0.0,
        remaining_s=remaining_s,
    )


def test_one_slot_serves_one_after_the_other() -> None:
    assert estimate_waits([AUDIO, CHAT, AUDIO], [], [worker()], LENGTHS) == [0.0, 120.0, 135.0]


def test_running_sessions_delay_the_queue() -> None:
    running = [job(remaining_s=30.0), job(remaining_s=7.0)]
    assert estimate_waits([AUDIO, AUDIO], running, [worker(slots=2)], LENGTHS) == [7.0, 30.0]


def test_several_workers_share_the_queue() -> None:
    running = [job("a", 50.0), job("b", 10.0)]
    waits = estimate_waits([AUDIO, AUDIO, AUDIO], running, [worker("a"), worker("b")], LENGTHS)
    assert waits == [10.0, 50.0, 130.0]


def test_a_worker_serves_its_kinds_only() -> None:
    workers = [worker("a", AUDIO), worker("o", OMNI)]
    assert estimate_waits([AUDIO, AUDIO, OMNI], [], workers, LENGTHS) == [0.0, 120.0, 120.0]


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ([], WaitReason.NO_WORKER),
        ([worker(open_=False, state=WorkerState.DRAINING)], WaitReason.NO_WORKER),
        ([worker(open_=False, state=WorkerState.ERROR)], WaitReason.NO_WORKER),
        ([worker(slots=0)], WaitReason.NO_WORKER),
        ([worker("o", OMNI)], WaitReason.KIND_NOT_SERVED),
        ([worker(open_=False, state=WorkerState.LOADING)], WaitReason.WORKER_LOADING),
    ],
)
def test_there_is_no_estimate_without_an_open_worker(
    workers: list[WorkerRow], reason: WaitReason
) -> None:
    assert estimate_waits([AUDIO, AUDIO], [job("gone", 9.0)], workers, LENGTHS) == [reason] * 2


def test_sessions_without_a_worker_delay_no_others() -> None:
    loading = worker("l", CHAT, open_=False, state=WorkerState.LOADING)
    waits = estimate_waits([OMNI, AUDIO, CHAT, AUDIO], [], [worker("a", AUDIO), loading], LENGTHS)
    assert waits == [WaitReason.KIND_NOT_SERVED, 0.0, WaitReason.WORKER_LOADING, 120.0]


def test_durations_are_learnt_after_enough_samples() -> None:
    few = {b"ema:audio_duplex": b"40.0", b"count:audio_duplex": str(ENOUGH_SAMPLES - 1).encode()}
    many = {**few, b"count:audio_duplex": str(ENOUGH_SAMPLES).encode()}
    assert SessionLengths.read(flat(few)).expected_s(AUDIO) == 120.0
    assert SessionLengths.read(flat(many)).expected_s(AUDIO) == 40.0
    assert SessionLengths.read(flat({b"baseline:audio_duplex": b"9"})).expected_s(AUDIO) == 9.0


def test_a_deleted_average_is_replaced_by_the_baseline() -> None:
    assert SessionLengths.read([b"count:audio_duplex", b"9"]).expected_s(AUDIO) == 120.0


def flat(row: dict[bytes, bytes]) -> list[bytes]:
    return [part for pair in row.items() for part in pair]


WORKERS = st.lists(
    st.builds(
        lambda name, kinds, slots, open_: worker(name, *kinds, slots=slots, open_=open_),
        st.sampled_from("abc"),
        st.sets(st.sampled_from(SessionKind)),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda row: row.id,
)
JOBS = st.lists(st.builds(job, st.sampled_from("abcd"), st.floats(0, 500)), max_size=6)
KINDS = st.lists(st.sampled_from(SessionKind), max_size=12)


@given(kinds=KINDS, running=JOBS, workers=WORKERS)
def test_estimates_are_never_negative_and_never_decrease_along_the_queue(
    kinds: list[SessionKind], running: list[RunningSession], workers: list[WorkerRow]
) -> None:
    waits = estimate_waits(kinds, running, workers, LENGTHS)
    assert len(waits) == len(kinds)
    known = [wait for wait in waits if not isinstance(wait, WaitReason)]
    assert known == sorted(known)
    assert all(wait >= 0.0 for wait in known)


@given(kinds=KINDS, running=JOBS, workers=WORKERS)
def test_another_session_at_the_end_changes_no_estimate_before_it(
    kinds: list[SessionKind], running: list[RunningSession], workers: list[WorkerRow]
) -> None:
    waits = estimate_waits(kinds, running, workers, LENGTHS)
    assert estimate_waits([*kinds, AUDIO], running, workers, LENGTHS)[:-1] == waits
