"""A rolling update with `deploy/update.sh`, while sessions talk."""

import asyncio
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose import WITHIN_S, Compose, eventually
from support.chaos.clients import ChaosSession, Outcome
from support.stack import until

FOREVER_S = 3600.0
NEW = "next"
BROKEN = "broken"
WITHOUT_RECORDER = 'ENTRYPOINT ["sh", "-c", "[ $0 != recorder ] && exec antiphon $0 $*"]'
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


@pytest.fixture(scope="module")
def broken(updated: Compose) -> Iterator[Compose]:
    """The updated stack, whose images have a version now in which the recorder ends at once."""
    dockerfile = f"FROM antiphon-service:latest\n{WITHOUT_RECORDER}\n"
    command = f"printf '{dockerfile}' | docker build --quiet --tag antiphon-service:{BROKEN} -"
    updated.run("sh", "-c", command)
    yield Compose(updated.folder, {**updated.environment, "ANTIPHON_VERSION": BROKEN})
    updated("up", "--detach", "--no-build", "--no-deps", "secrets")


def labels(stack: Compose, service: str = "") -> list[str]:
    """Filters of Docker for the containers of the stack, or of one of its services."""
    wanted = {"project": stack.environment["COMPOSE_PROJECT_NAME"]}
    wanted |= {"service": service} if service else {}
    return [f"--filter=label=com.docker.compose.{name}={it}" for name, it in wanted.items()]


def version_of(image: str) -> str:
    return image.partition(":")[2]


def versions(stack: Compose, service: str) -> Counter[str]:
    """The number of running containers of each version.

    One call: `docker compose ps` fails if a container is removed between two of its calls.
    """
    images = stack.docker("ps", "--format", "{{.Image}}", *labels(stack, service)).split()
    return Counter(map(version_of, images))


@contextmanager
def recorded_events(stack: Compose, file: Path) -> Iterator[None]:
    """Writes a line for each start and each end of a container."""
    now = stack.docker("info", "--format", "{{.SystemTime}}").strip()
    wanted = ("--filter=event=start", "--filter=event=die", *labels(stack))
    command = ["docker", "events", f"--since={now}", "--format={{json .}}", *wanted]
    with (
        file.open("wb") as output,
        subprocess.Popen(command, env=stack.environment, stdout=output) as events,
    ):
        try:
            yield
        finally:
            events.terminate()


def running_meanwhile(file: Path, service: str) -> list[Counter[str]]:
    """The running containers of each version, before the update and after each start and end."""
    states = [Counter({"latest": SERVICES[service]})]
    for line in file.read_text().split("\n")[:-1]:
        event = json.loads(line)
        its = event["Actor"]["Attributes"]
        if its["com.docker.compose.service"] == service:
            change = Counter({version_of(its["image"]): 1})
            last = states[-1]
            states.append(last + change if event["Action"] == "start" else last - change)
    return states


async def test_sessions_continue_through_an_update_of_every_service(
    updated: Compose, tmp_path: Path
) -> None:
    """Clients receive every message once. Only what they send into a breaking connection may be lost."""
    over = asyncio.Event()
    sessions = [
        ChaosSession(f"adx_update_{n}", [updated.url], random.Random(n), FOREVER_S, updated.trust)
        for n in range(3)
    ]
    for session in sessions:
        session.starts_within_s = WITHIN_S
    talks = [asyncio.create_task(session.run(over)) for session in sessions]

    async def all_get_results(count: int) -> None:
        wanted = [len(session.results) + count for session in sessions]
        await until(
            lambda: all(len(s.results) >= n for s, n in zip(sessions, wanted, strict=True)),
            within_s=WITHIN_S,
            every_s=0.1,
        )

    await all_get_results(3)
    events = tmp_path / "events.jsonl"
    with recorded_events(updated, events):
        await asyncio.to_thread(updated.run, "deploy/update.sh")
        await all_get_results(3)
        ends = sum(SERVICES.values())
        await eventually(lambda: events.read_text().count('"Action":"die"') >= ends)
    for service in ("worker", "edge"):
        both = Counter({"latest": SERVICES[service], NEW: SERVICES[service]})
        assert both in running_meanwhile(events, service), service
    over.set()
    await asyncio.wait_for(asyncio.gather(*talks), WITHIN_S)

    for service, count in SERVICES.items():
        assert versions(updated, service) == {NEW: count}, service
    for session in sessions:
        assert session.violations == []
        assert session.outcome is Outcome.STOPPED, session.code
        assert session.resumes >= 1
        await eventually(lambda s=session: recording(updated, s)["state"] == "complete")
        assert recording(updated, session)["missing"] == []


def recording(stack: Compose, session: ChaosSession) -> dict[str, object]:
    meta: dict[str, object] = json.loads(stack.python("cleanup", META.format(session.recording)))
    return {"state": "", "missing": [], **meta}


def test_the_next_up_replaces_nothing(updated: Compose) -> None:
    before = {c["ID"] for service in SERVICES for c in updated.containers(service)}
    updated("up", "--detach", "--wait")
    assert {c["ID"] for service in SERVICES for c in updated.containers(service)} == before


def test_an_update_that_fails_leaves_the_old_containers(broken: Compose) -> None:
    before = {c["ID"] for c in broken.containers("recorder")}
    for _ in range(2):
        with pytest.raises(AssertionError, match="recorder keeps its old containers"):
            broken.run("deploy/update.sh", "recorder")
        assert {c["ID"]: c["Health"] for c in broken.containers("recorder")} == dict.fromkeys(
            before, "healthy"
        )
