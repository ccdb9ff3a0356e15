"""Simulated users of `antiphon bench`, with servers that do not answer."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.cli.load import users
from antiphon.cli.load.plan import LoadPlan, UserKind
from antiphon.cli.load.run import LoadResult, NoUserServed, run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.usage import ProcessUsage
from antiphon.client.options import ClientOptions
from support.scripted_server import Script, Scripted, Wire

SPEECH = np.random.default_rng(1).uniform(-0.3, 0.3, 16_000).astype(np.float32)


async def load(script: Script, plan: LoadPlan) -> LoadResult:
    async with asyncio.timeout(60), Scripted(script).running() as server:
        return await run_load(
            server.url,
            ClientOptions(),
            plan,
            LoadInputs.of([SPEECH], plan.speak_ratio),
            usage=lambda: ProcessUsage.of({}),
        )


async def grant_without_preparing(wire: Wire) -> None:
    await wire.send("queue_done")
    await wire.expect("prepare")
    await wire.socket.wait_closed()


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setattr(users, "_PREPARE_S", 0.2)
        yield


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("kind", [UserKind.AUDIO, UserKind.HALF_DUPLEX])
async def test_a_session_that_is_never_prepared_fails(kind: UserKind) -> None:
    plan = LoadPlan(kinds=(kind,), sessions=2, seconds=1, patience_s=50)
    words = rf"^{kind}: the server did not prepare the session within 0\.2 s$"
    with pytest.raises(NoUserServed, match=words):
        await load(grant_without_preparing, plan)


async def test_patience_that_is_over_first_is_named() -> None:
    plan = LoadPlan(kinds=(UserKind.AUDIO,), sessions=1, seconds=1, patience_s=0.2)
    with pytest.raises(NoUserServed, match=r"within 0\.2 s; --patience waits longer"):
        await load(grant_without_preparing, plan)


async def test_a_load_without_an_answer_is_unanswered() -> None:
    async def hang_up(wire: Wire) -> None:
        await wire.next()

    plan = LoadPlan(
        kinds=(UserKind.CHAT,), sessions=1, seconds=1, warm_up_s=0, every_s=0.5, grace_s=0
    )
    result = await load(hang_up, plan)
    assert (result.unserved, result.is_unanswered) == (0, True)
    assert sum(result.log.failures.values()) == 1
