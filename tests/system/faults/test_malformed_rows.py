"""Rows in Redis that no version of Antiphon writes, while real processes run."""

import asyncio
from pathlib import Path

import httpx
from redis.asyncio import Redis

from antiphon.broker.keys import Keys
from support.fault_stack import fault_stack, talkers
from support.stack import until

GARBAGE = {"kind": "zzz", "state": "zzz", "ticket": "zzz", "slots": "zzz", "at": "zzz"}


async def poison(raw: Redis, keys: Keys) -> None:
    """A lease and a queue entry with a malformed row each, a worker, an edge, estimates and events."""
    for sid in ("adx_bad_lease", "adx_bad_kind", "adx_bad_queue"):
        await raw.hset(keys.session(sid), mapping=GARBAGE | {"edge": "edge-x"})
    complete = {"kind": "audio_duplex", "worker": "w", "state": "active", "attempt": 1, "ticket": 1}
    await raw.hset(keys.session("adx_bad_lease"), mapping=complete)  # but no assigned_at
    await raw.zadd(keys.leases, {"adx_bad_lease": 9e15, "adx_bad_kind": 9e15})
    await raw.zadd(keys.queue, {"adx_bad_queue": 1})
    await raw.hset(keys.worker("w-bad"), mapping=GARBAGE)
    await raw.zadd(keys.workers, {"w-bad": 9e15})
    await raw.zadd(keys.edges, {b"\xff": "inf", "edge-x": "inf"})
    await raw.hset(keys.eta, mapping={"alpha": "zzz", "ema:audio_duplex": "nan", "zzz": "zzz"})
    await raw.hset(keys.reaper, mapping={"last": "zzz", "quiet_until": "zzz"})
    for _ in range(50):
        await raw.xadd(keys.events, GARBAGE)


async def test_malformed_rows_end_no_process(tmp_path: Path) -> None:
    async with fault_stack(tmp_path) as faults:
        edge = await faults.edge()
        worker = await faults.worker(slots=4)
        recorder = await faults.recorder()
        keys = Keys(faults.stack.prefix)
        async with (
            Redis.from_url(faults.stack.redis.url) as raw,
            httpx.AsyncClient(base_url=faults.stack.http_url) as http,
            talkers(faults, 1) as (active,),
        ):
            await poison(raw, keys)
            await active.talk(2)
            for path in ("/status", "/api/queue", "/workers", "/sessions"):
                assert (await http.get(path)).status_code == 200, path
            assert (await http.get(f"{edge.status_url}/metrics")).status_code == 200

            async def upkeep_ran() -> bool:  # by the edge and by the worker, over these rows
                return (await raw.hget(keys.reaper, "last") or b"zzz") != b"zzz"

            for _ in range(2):
                await until(upkeep_ran)
                await raw.hset(keys.reaper, "last", "zzz")
            await until(lambda: "row_malformed" in edge.log)
            async with httpx.AsyncClient(base_url=faults.stack.http_url) as again:
                assert (await again.get("/api/queue")).status_code == 200
            await asyncio.gather(active.talk(1))
            active.check()
            assert faults.all_alive()
            for service in (edge, worker, recorder):
                lines = [line for line in service.log.splitlines() if "_malformed" in line]
                assert len(lines) <= 40, service.name
                assert service.log.count("event_unreadable") <= 40, service.name
