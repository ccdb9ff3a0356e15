"""Backup of the running stack, a stop, and the restore of the backup into empty volumes."""

import asyncio
import json
from pathlib import Path

import pytest

from compose import SERVICES, Compose, eventually
from spoken_question import ask
from support.edge_harness import base64_audio
from support.resuming_client import Resumer
from support.synthetic_speech import ITALY

KEY = "{antiphon}:of-the-backup"
RECORDINGS = (
    "import json, pathlib; metas = pathlib.Path('/data/sessions').glob('*/meta.json'); "
    "print(json.dumps({m.parent.name: json.loads(m.read_text())['state'] for m in metas}))"
)
CONTENT = (
    "import hashlib, json, pathlib; root = pathlib.Path('/data/sessions/{}'); print(json.dumps({{"
    "str(f.relative_to(root)): hashlib.sha256(f.read_bytes()).hexdigest() "
    "for f in root.rglob('*') if f.is_file()}}))"
)


def recordings(stack: Compose) -> dict[str, str]:
    """The state of each recording."""
    states: dict[str, str] = json.loads(stack.python("cleanup", RECORDINGS))
    return states


def redis(stack: Compose, command: str) -> str:
    login = 'REDISCLI_AUTH="$(cat /run/antiphon/redis_password)"'
    return stack("exec", "-T", "redis", "sh", "-c", f"{login} redis-cli {command}").strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backup")


@pytest.fixture(scope="module")
def copied() -> dict[str, dict[str, str]]:
    """The checksums of the files in each complete recording at the backup."""
    return {}


async def test_a_backup_is_made_while_a_session_talks(
    stack: Compose, folder: Path, copied: dict[str, dict[str, str]]
) -> None:
    await ask(stack, ITALY)
    await eventually(lambda: "complete" in recordings(stack).values())
    for name in (name for name, state in recordings(stack).items() if state == "complete"):
        copied[name] = json.loads(stack.python("cleanup", CONTENT.format(name)))
    redis(stack, f"set {KEY} kept")
    client = Resumer("/ws/duplex/adx_containers_backup", tls=stack.trust)
    async with client.connected(stack.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        await asyncio.to_thread(stack.run, "deploy/backup.sh", str(folder))
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result")
        await client.send("stop")
        await client.expect("stopped")
    assert sorted(path.name for path in folder.iterdir()) == ["recordings.tar", "redis.tar"]
    assert redis(stack, "config get auto-aof-rewrite-percentage").split()[-1] == "100"


def test_a_restore_beside_another_profile_stops_nothing(stack: Compose, folder: Path) -> None:
    ha = ("--profile", "ha")
    stack(*ha, "up", "--detach", "--no-build", "--no-recreate", "--wait", "redis-2")
    with pytest.raises(AssertionError, match="services that run: redis-2"):
        stack.run("deploy/restore.sh", str(folder))
    assert redis(stack, f"get {KEY}") == "kept"
    stack(*ha, "rm", "--stop", "--force", "redis-2")


def test_every_container_stops_by_itself(stack: Compose) -> None:
    """No container is killed (137). A busy machine needs longer than the grace period."""
    stack("stop", "--timeout", "120")
    for service in SERVICES:
        for container in stack.containers(service):
            assert container["ExitCode"] in (0, 143), (service, container)


async def test_the_backup_is_restored_into_empty_volumes(
    stack: Compose, folder: Path, copied: dict[str, dict[str, str]]
) -> None:
    stack("down", "--volumes")
    stack.run("deploy/restore.sh", str(folder))
    assert redis(stack, f"get {KEY}") == "kept"
    for name, files in copied.items():
        assert json.loads(stack.python("cleanup", CONTENT.format(name))) == files
    text, _ = await ask(stack, ITALY)
    assert text
