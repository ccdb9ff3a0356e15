"""docs/redis-keys.md against a running system: its examples, types and fields."""

import inspect
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.keys import Keys, shard_tag
from antiphon.broker.requirements import SCHEMA_VERSION
from antiphon.shared_schemas.entries import PastSteps
from antiphon.shared_schemas.registry import SessionRow, WorkerCommand
from antiphon.shared_schemas.voices import Voice, new_voice_id
from support.control_plane import AUDIO, report
from support.key_leaks import PERMANENT
from support.raw_client import open_wire
from support.redis_server import redis_cli
from support.stack import Stack, until

DOC = (Path(__file__).parents[3] / "docs" / "redis-keys.md").read_text()
TYPES = dict(re.findall(r"^\| `([^`]+)` \| (HASH|ZSET|STRING|STREAM) \|", DOC, re.MULTILINE))
SECTIONS = dict(re.findall(r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL))
EXAMPLES = [
    line for block in re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL) for line in block.splitlines()
]
PLACES = {"sid": "<sid>", "worker_id": "<id>", "ticket": "<ticket>", "token": "<token>"}
PLACES |= {"recording": "<recording>", "voice_id": "<voice>"}
NO_KEYS = {"prefix", "control", "streams", "stream_patterns", "script_keys", "sid_of"}
REFUSAL = re.compile(r"^(\(error\)|ERR|WRONGTYPE|NOGROUP|Could not connect)", re.MULTILINE)


@dataclass
class System:
    """A live system in which every documented key exists."""

    stack: Stack
    broker: Broker
    names: dict[str, str]

    def redis_cli(self, command: str) -> str:
        """The output of a shell command whose `redis-cli` uses this system's Redis."""
        folder = self.stack.folder / "bin"
        folder.mkdir(exist_ok=True)
        real = redis_cli()
        wrapper = folder / "redis-cli"
        wrapper.write_text(f'#!/bin/sh\nexec "{real}" -p {self.stack.redis.port} "$@"\n')
        wrapper.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        shell = ["sh", "-euc", command]
        shown = subprocess.run(
            shell, env=self.names | {"PATH": path}, capture_output=True, text=True, errors="replace"
        )
        assert shown.returncode == 0, f"{command}\n{shown.stderr}"
        return shown.stdout

    def live(self, key: str) -> str:
        """A documented key with its placeholders filled."""
        filled = key
        for place, name in (
            *(("<shard>", "SHARD"), ("<sid>", "SID"), ("<id>", "WORKER"), ("<ticket>", "TICKET")),
            *(("<token>", "TOKEN"), ("<recording>", "RECORDING"), ("<voice>", "VOICE")),
        ):
            filled = filled.replace(place, self.names[name])
        return filled


@asynccontextmanager
async def running_system(stack: Stack) -> AsyncIterator[System]:
    stack.prefix = "antiphon"
    stack.recorder(recorder_upkeep_s=0.1)
    stack.edge()
    stack.worker(slots=1)
    async with (
        open_wire(stack.ws_url, "adx_1", "?resume=1") as talking,
        open_broker(stack.settings) as broker,
    ):
        await talking.begin()
        await talking.send_second()
        await talking.expect("result")
        row = await broker.sessions.get("adx_1")
        assert row is not None
        await until(lambda: _recorded(broker, row.ticket))
        async with open_wire(stack.ws_url, "adx_2"):
            await until(lambda: _waits(broker))
            yield System(stack, broker, await _create_keys(stack, broker, row))
        await talking.send(type="stop")
        await talking.until("stopped")


async def _create_keys(stack: Stack, broker: Broker, row: SessionRow) -> dict[str, str]:
    """Creates every other key; returns the names for the placeholders."""
    await broker.registry.worker_beat("leaving", report(is_open=False))
    voice = Voice(id=new_voice_id(), name="Anna", duration_ms=1, created_at=1)
    await broker.voices.add(voice, bytes(32), at_most=9)
    share = await broker.shares.create(row.recording)
    await broker.eta.configure({}, 0.3)
    await broker.apps.switch("realtime", enabled=False)
    past = await broker.streams.past_writer(row.sid, row.ticket, row.epoch)
    await past.append(PastSteps(last_input="1-1", last_output="1-1", count=1, steps=[]))
    async with Redis.from_url(stack.redis.url) as raw:
        await raw.zadd(broker.keys.trials, {row.sid: 1e15})
        shard = await raw.hget(broker.keys.session(row.sid), "shard")
    assert shard is not None
    names = {"SID": "adx_1", "SHARD": shard.decode(), "WAITING": "adx_2"}
    names |= {
        "TICKET": str(row.ticket),
        "WORKER": row.worker,
        "DRAINED": "leaving",
        "VOICE": voice.id,
    }
    return names | {"TOKEN": share.token, "RECORDING": row.recording}


async def _recorded(broker: Broker, ticket: int) -> bool:
    return await broker.recorder_progress.load(ticket) is not None


async def _waits(broker: Broker) -> bool:
    return len((await broker.queue.snapshot()).waiting) == 1


def built_keys() -> set[str]:
    """Every key that the program can build, as the document writes it."""
    names = set()
    for name, member in inspect.getmembers(Keys()):
        if name in NO_KEYS or name.startswith("_"):
            continue
        if isinstance(member, str):
            names.add(member)
        elif inspect.ismethod(member):
            built = member(*(PLACES[part] for part in inspect.signature(member).parameters))
            names.add(built.replace(shard_tag(PLACES["sid"]), "<shard>"))
    return names


def test_every_key_is_in_the_table_and_has_a_section() -> None:
    assert set(TYPES) == built_keys()
    assert set(SECTIONS) == built_keys()
    assert f"**contract version {SCHEMA_VERSION}**" in DOC


def test_the_keys_that_no_process_removes_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| `\{antiphon\}:(\w+)` \|", DOC, re.MULTILINE)
    assert set(rows) == set(PERMANENT)


async def test_the_document_matches_a_running_system(stack: Stack) -> None:
    async with running_system(stack) as system:
        entries_carry_what_is_documented(system)
        for key, kind in TYPES.items():
            found = system.redis_cli(f"redis-cli TYPE '{system.live(key)}'").strip()
            assert found.upper() == kind, key
            if kind == "HASH" and "`" in SECTIONS[key]:
                await every_field_is_named(system, key)
        for command in EXAMPLES:
            shown = system.redis_cli(command)
            assert shown.strip(), command
            assert not REFUSAL.search(shown), f"{command}\n{shown}"
        asked = await system.broker.registry.worker_beat("leaving", report(is_open=False))
        assert asked is WorkerCommand.DRAIN
        assert (await system.broker.eta.lengths()).baselines[AUDIO] == 150


async def every_field_is_named(system: System, key: str) -> None:
    """Fields that are ids (a page, a voice) have no fixed names."""
    if key in ("{antiphon}:apps", "{antiphon}:ref_audio"):
        return
    fields = system.redis_cli(f"redis-cli HKEYS '{system.live(key)}'").split()
    assert fields, key
    for field in fields:
        name = re.sub(r":\w+$", ":", field)
        assert f"`{name}" in SECTIONS[key], f"{key} has a field {field} that is not documented"


@pytest.mark.parametrize("variable", ["SID", "SHARD", "TICKET", "WORKER"])
def test_the_introduction_names_the_placeholders_of_the_examples(variable: str) -> None:
    assert f"`${variable}`" in DOC.split("\n## ")[0]


def entries_carry_what_is_documented(system: System) -> None:
    entry = system.redis_cli("redis-cli XREVRANGE '{antiphon}:events' + - COUNT 1").split("\n")
    for field in entry[1:-1:2]:
        assert f"`{field}`" in SECTIONS["{antiphon}:events"], field
    chunk = system.redis_cli('redis-cli XREVRANGE "antiphon:in:{$SHARD}:$SID" + - COUNT 1')
    assert {"h", "audio", "w"} <= set(chunk.splitlines())
