"""Backup of the running stack, a stop, and the restore of the backup into empty volumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compose import SERVICES, Compose
from spoken_question import ask
from support.edge_harness import base64_audio
from support.resuming_client import Resumer
from support.stack import until
from support.synthetic_speech import ITALY

WITHIN_S = 90.0
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
    await until(lambda: "complete" in recordings(stack).values(), within_s=WITHIN_S)
    for name in recordings(stack):
        copied[name] = json.loads(stack.python("cleanup", CONTENT.format(name)))
    redis(stack, f"set {KEY} kept")
    client = Resumer("/ws/duplex/adx_containers_backup", tls=stack.trust)
    async with client.connected(stack.url):
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="You are a helpful assistant.")
        await client.expect("prepared")
        stack.run("deploy/backup.sh", str(folder))
        await client.send("audio_chunk", audio_base64=base64_audio())
        await client.expect("result")
        await client.send("stop")
        await client.expect("stopped")
    assert sorted(path.name for path in folder.iterdir()) == ["recordings.tar", "redis.tar"]
    assert redis(stack, "config get auto-aof-rewrite-percentage").split()[-1] == "100"


def test_every_container_stops_in_its_grace_period(stack: Compose) -> None:
    """No container is killed (137)."""
    stack("stop")
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
