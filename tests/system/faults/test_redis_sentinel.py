"""Sentinel elects another master while clients of all protocols talk, and others wait."""

from collections.abc import Iterator

import pytest

from support.chaos.clients import Outcome
from support.failover.faults import freeze, freeze_while_clients_resume, lose_writes
from support.failover.talk import LOAD, Load, TalkingStack, talking_stack
from support.redis_sentinel import RedisSentinel, redis_sentinel

pytestmark = [pytest.mark.extended, pytest.mark.speech]


@pytest.fixture(scope="module")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSentinel]:
    with redis_sentinel(tmp_path_factory.mktemp("sentinel"), replicas=2) as running:
        yield running


@pytest.fixture(scope="module")
def talking(
    tmp_path_factory: pytest.TempPathFactory, sentinel: RedisSentinel
) -> Iterator[TalkingStack]:
    folder = tmp_path_factory.mktemp("stack")
    with talking_stack(folder, sentinel, slots=LOAD.slots) as running:
        yield running


async def test_f7_sentinel_replaces_a_suspended_master(
    talking: TalkingStack, sentinel: RedisSentinel
) -> None:
    """It accepts writes until a Sentinel demotes it, seconds after it continues."""
    fault = freeze(sentinel, sentinel.master)
    report = await talking.talk_through(fault, Load(6, others=2))
    report.check()


async def test_f7_clients_resume_while_a_master_is_suspended(
    talking: TalkingStack, sentinel: RedisSentinel
) -> None:
    """What it still accepts is lost: resumes, and input of the connection before."""
    fault = freeze_while_clients_resume(sentinel)
    report = await talking.talk_through(fault, Load(2, resuming=10))
    print(report)  # noqa: T201
    assert not report.violations
    assert not report.ended_early


async def test_f7_what_the_new_master_lacks_ends_with_an_error(
    talking: TalkingStack, sentinel: RedisSentinel
) -> None:
    """The replica misses the last seconds: results, and sessions that have begun."""
    recordings = talking.stack.data_dir / "sessions"
    fault = lose_writes(sentinel, late_clients=4, recordings=recordings)
    report = await talking.talk_through(fault, Load(8), loses_writes=True)
    print(report)  # noqa: T201
    assert not report.violations
    early, late = report.sessions[:8], report.sessions[8:]
    assert {session.outcome for session in late} <= {Outcome.REPORTED, Outcome.EXPIRED}
    assert {session.outcome for session in early} <= {Outcome.STOPPED, Outcome.REPORTED}
