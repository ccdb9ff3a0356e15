"""A rolling update with `deploy/update.sh`, while sessions talk."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest

from compose import Compose
from support.chaos.clients import ChaosSession, Outcome
from support.stack import until

WITHIN_S = 120.0
FOREVER_S = 3600.0
NEW = "next"
SERVICES = {"edge": 2, "worker": 1, "recorder": 2, "cleanup": 1}
META = (
    "import pathlib; folder = pathlib.Path('/data/sessions/{}'); "
    "print((folder / 'meta.json').read_text() if (folder / 'meta.json').exists() else '{{}}')"
)


@pytest.fixture(scope="module")
def updated(stack: Compose) -> Compose:
    """The same stack, whose images have another version now."""
    for name in ("antiphon-service", "antiphon-worker"):
        dockerfile = f"FROM {name}:latest\nLABEL version={NEW}\n"
        command = f"printf '{dockerfile}' | docker build --quiet --tag {name}:{NEW} -"
        stack.run("sh", "-c", command)
    return Compose(stack.folder, {**stack.environment, "ANTIPHON_VERSION": NEW})


def versions(stack: Compose, service: str) -> Counter[str]:
    """The number of running containers of each version.

    One call: `docker compose ps` fails if a container is removed between two of its calls.
    """
    project = stack.environment["COMPOSE_PROJECT_NAME"]
    labels = {"project": project, "service": service}
    filters = [f"--filter=label=com.docker.compose.{name}={it}" for name, it in labels.items()]
    images = stack.docker("ps", "--format", "{{.Image}}", *filters).split()
    return Counter(image.partition(":")[2] for image in images)


async def test_sessions_continue_through_an_update_of_every_service(updated: Compose) -> None:
    """Clients receive every message once. Only what they send into a breaking connection may be lost."""
    over = asyncio.Event()
    sessions = [
        ChaosSession(f"adx_update_{n}", [updated.url], random.Random(n), FOREVER_S, updated.trust)
        for n in range(3)
    ]
    talks = [asyncio.create_task(session.run(over)) for session in sessions]

    async def all_get_results(count: int) -> None:
        wanted = [len(session.results) + count for session in sessions]
        await until(
            lambda: all(len(s.results) >= n for s, n in zip(sessions, wanted, strict=True)),
            within_s=WITHIN_S,
            every_s=0.1,
        )

    await all_get_results(3)
    updating = asyncio.create_task(asyncio.to_thread(updated.run, "deploy/update.sh"))
    for service in ("worker", "edge"):
        both = Counter({"latest": SERVICES[service], NEW: SERVICES[service]})
        await until(
            lambda service=service, both=both: versions(updated, service) == both,
            within_s=WITHIN_S,
            every_s=0.2,
        )
    await updating
    await all_get_results(3)
    over.set()
    await asyncio.wait_for(asyncio.gather(*talks), WITHIN_S)

    for service, count in SERVICES.items():
        assert versions(updated, service) == {NEW: count}, service
    for session in sessions:
        assert session.violations == []
        assert session.outcome is Outcome.STOPPED, session.code
        assert session.resumes >= 1
        await until(
            lambda s=session: recording(updated, s)["state"] == "complete", within_s=WITHIN_S
        )
        assert recording(updated, session)["missing"] == []


def recording(stack: Compose, session: ChaosSession) -> dict[str, object]:
    meta: dict[str, object] = json.loads(stack.python("cleanup", META.format(session.recording)))
    return {"state": "", "missing": [], **meta}


def test_the_next_up_replaces_nothing(updated: Compose) -> None:
    before = {c["ID"] for service in SERVICES for c in updated.containers(service)}
    updated("up", "--detach", "--wait")
    assert {c["ID"] for service in SERVICES for c in updated.containers(service)} == before
