"""Which recordings are deleted, in which order, and which never are."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.cleanup_job.report import Rule
from antiphon.cleanup_job.sweep import Policy, StoredSession, decide

NOW = 1_000_000.0


def stored(
    name: str, *, size: int = 10, age: float = 0, unused: float = 0, **more: object
) -> StoredSession:
    return StoredSession(
        name=name,
        size=size,
        created=NOW - age,
        last_used=NOW - unused,
        last_written=NOW - float(more.get("silent", 0)),  # type: ignore[arg-type]
        busy=bool(more.get("busy")),
    )


def policy(max_age_s: float = -1, max_bytes: float = -1, orphan_s: float = 100) -> Policy:
    return Policy(max_age_s=max_age_s, max_bytes=max_bytes, orphan_s=orphan_s)


def names(sessions: list[StoredSession], rules: Policy) -> list[tuple[str, Rule]]:
    return [(s.name, rule) for s, rule in decide(sessions, rules, NOW)]


def test_by_age_the_oldest_first() -> None:
    sessions = [stored("new", age=5), stored("old", age=50), stored("older", age=60)]
    assert names(sessions, policy(max_age_s=20)) == [("older", Rule.AGE), ("old", Rule.AGE)]


def test_minus_one_disables_a_rule_and_zero_does_not() -> None:
    sessions = [stored("a", age=1e9, size=10**15)]
    assert names(sessions, policy()) == []
    assert names(sessions, policy(max_age_s=0)) == [("a", Rule.AGE)]
    assert names(sessions, policy(max_bytes=0)) == [("a", Rule.SIZE)]


SESSIONS = st.lists(
    st.builds(
        StoredSession,
        name=st.uuids().map(str),
        size=st.integers(0, 1000),
        created=st.floats(0, NOW),
        last_used=st.floats(0, NOW),
        last_written=st.floats(0, NOW),
        busy=st.booleans(),
        serving=st.booleans(),
    ),
    unique_by=lambda s: s.name,
    max_size=30,
)


@given(SESSIONS, st.floats(-1, NOW), st.floats(-1, 10_000), st.floats(1, NOW))
def test_the_rules_hold_for_any_recordings(
    sessions: list[StoredSession], max_age_s: float, max_bytes: float, orphan_s: float
) -> None:
    rules = policy(max_age_s, max_bytes, orphan_s)
    decided = decide(sessions, rules, NOW)
    gone = [s.name for s, _ in decided]
    kept = [s for s in sessions if s.name not in gone]
    live = [s for s in sessions if rules.is_live(s, NOW)]
    assert len(gone) == len(set(gone))
    assert not {s.name for s in live} & set(gone)
    if max_age_s >= 0:
        assert all(s in live or NOW - s.created <= max_age_s for s in kept)
    if max_bytes >= 0:
        assert sum(s.size for s in kept) <= max_bytes or kept == [s for s in sessions if s in live]
    by_size = [s for s, rule in decided if rule is Rule.SIZE]
    if by_size:  # SIZE deletes the least recently used first, and as few as possible
        idle_kept = [s.last_used for s in kept if s not in live]
        assert max(s.last_used for s in by_size) <= min(idle_kept, default=NOW)
        assert sum(s.size for s in kept) + by_size[-1].size > max_bytes
