"""The settings of a stack: flags over environment over `antiphon.toml` over defaults."""

from pathlib import Path

import pytest

from antiphon.cli.commands import demo, evaluate
from antiphon.cli.commands.up import plan_from
from antiphon.cli.stack.stack import STOP_ORDER, StackPlan, specs


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PORT", "HOST", "ENGINE", "SLOTS", "REDIS_URL", "DATA_DIR", "DRAIN_S"):
        monkeypatch.delenv(f"ANTIPHON_{name}", raising=False)


def test_defaults(tmp_path: Path) -> None:
    plan = plan_from(redis_url=None, redis_port=0)
    assert (plan.edge_url, plan.engine, plan.redis_url) == ("ws://127.0.0.1:8006", "local", None)
    assert plan.data_dir == tmp_path / "data"


def test_flags_override_the_environment_and_that_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "antiphon.toml").write_text('port = 1001\nslots = 11\nengine = "simulated"\n')
    monkeypatch.setenv("ANTIPHON_PORT", "1002")
    monkeypatch.setenv("ANTIPHON_SLOTS", "12")
    plan = plan_from(redis_url=None, redis_port=0, port=1003)
    assert (plan.port, plan.slots, plan.engine) == (1003, 12, "simulated")


def test_a_configured_redis_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_REDIS_URL", "redis://elsewhere:6379/3")
    assert plan_from(redis_url=None, redis_port=0).redis_url == "redis://elsewhere:6379/3"
    assert plan_from(redis_url="redis://flag:1/0", redis_port=0).redis_url == "redis://flag:1/0"


@pytest.mark.parametrize("in_file", [False, True])
def test_the_stacks_of_evaluate_and_demo_have_a_redis_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_file: bool
) -> None:
    """Their recorders would take the recordings of others from a configured one."""
    if in_file:
        (tmp_path / "antiphon.toml").write_text('redis_url = "redis://elsewhere:6379/3"\n')
    else:
        monkeypatch.setenv("ANTIPHON_REDIS_URL", "redis://elsewhere:6379/3")
    assert plan_from(redis_url=None, redis_port=0).redis_url == "redis://elsewhere:6379/3"
    assert evaluate.stack_plan(tmp_path, {}, 1).redis_url is None
    assert demo._plan(tmp_path, tmp_path).redis_url is None


def test_services_receive_the_chosen_settings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_LOG_FORMAT", "console")
    plan = StackPlan(data_dir=tmp_path, host="127.0.0.1", port=8006)
    env = plan.env("redis://r")
    assert env["ANTIPHON_REDIS_URL"] == "redis://r"
    assert env["ANTIPHON_PORT"] == "8006"
    assert "ANTIPHON_SLOTS" not in env
    assert env["ANTIPHON_LOG_FORMAT"] == "json", "`antiphon up` reads the reason of a failed start"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "ws://127.0.0.1:80"),
        ("::", "ws://[::1]:80"),
        ("::1", "ws://[::1]:80"),
        ("10.0.0.2", "ws://10.0.0.2:80"),
    ],
)
def test_the_displayed_address_can_be_connected_to(tmp_path: Path, host: str, url: str) -> None:
    assert StackPlan(data_dir=tmp_path, host=host, port=80).edge_url == url


def test_a_configured_drain_time_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_from(redis_url=None, redis_port=0)
    assert float(plan.env("redis://r")["ANTIPHON_DRAIN_S"]) == 2
    monkeypatch.setenv("ANTIPHON_DRAIN_S", "45")
    plan = plan_from(redis_url=None, redis_port=0)
    assert float(plan.env("redis://r")["ANTIPHON_DRAIN_S"]) == 45
    graces_s = {spec.name: spec.grace_s for spec in specs(plan.drain_s, plan.worker_grace_s)}
    assert min(graces_s["edge"], graces_s["worker"]) > 45, "services are not killed before"


def test_the_worker_knows_when_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    for configured, expected in ((None, 10), ("4", 4)):
        if configured:
            monkeypatch.setenv("ANTIPHON_STOP_GRACE_S", configured)
        plan = plan_from(redis_url=None, redis_port=0)
        assert float(plan.env("redis://r")["ANTIPHON_STOP_GRACE_S"]) == expected
        graces_s = {spec.name: spec.grace_s for spec in specs(plan.drain_s, plan.worker_grace_s)}
        assert graces_s["worker"] == expected


def test_the_edge_starts_last_and_stops_first() -> None:
    names = [spec.name for spec in specs(drain_s=2.0, worker_grace_s=10.0)]
    assert names[-1] == STOP_ORDER[0] == "edge"
    assert sorted(names) == sorted(STOP_ORDER)
