"""Health, metrics and log lines of running services."""

import re
from typing import Any

import httpx
import orjson

from antiphon.broker.client import open_broker
from support.raw_client import open_wire
from support.stack import Service, Stack, until


def entries(service: Service) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in service.log.splitlines()]


def metric(url: str, name: str) -> float:
    """One sample, by its name and labels as written in the text."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, f"{name} is not in\n{text}"
    return float(found[1])


async def test_every_service_reports_a_conversation(stack: Stack) -> None:
    recorder = stack.recorder(recorder_upkeep_s=0.2, recorder_settle_s=0.1)
    cleanup = stack.start("cleanup_job")
    edge, worker = stack.edge(), stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        for _ in range(2):
            await wire.send_second()
            await wire.expect("result")
        async with open_broker(stack.settings) as broker:
            [row] = (await broker.queue.snapshot()).workers
        at_work = f"http://{row.address}"
        assert metric(at_work, "antiphon_worker_slots_used") == 1
        assert httpx.get(f"{at_work}/health").json()["state"] == "duplex_active"
        await wire.send(type="stop")
        await wire.expect("stopped")
    await until(lambda: metric(at_work, "antiphon_worker_slots_used") == 0)
    assert metric(at_work, 'antiphon_worker_claims_total{kind="audio_duplex"}') == 1
    assert metric(at_work, 'antiphon_stream_append_seconds_count{stream="out"}') >= 4
    assert metric(at_work, "antiphon_worker_unit_seconds_count") == 2

    writing = recorder.status_url
    complete = 'antiphon_recorder_recordings_total{state="complete"}'
    await until(lambda: metric(writing, complete) == 1)
    assert metric(writing, "antiphon_recorder_lag_seconds_count") >= 5
    assert httpx.get(f"{writing}/health").json()["status"] == "healthy"

    await until(lambda: "cleanup_swept" in cleanup.log)
    sweeping = cleanup.status_url
    await until(lambda: metric(sweeping, 'antiphon_cleanup_sweeps_total{status="done"}') == 1)

    for service, name, at in (
        (edge, "edge", edge.status_url),
        (worker, "worker", at_work),
        (recorder, "recorder", writing),
        (cleanup, "cleanup", sweeping),
    ):
        lines = entries(service)
        assert {line["service"] for line in lines} == {name}
        [instance] = {line["instance"] for line in lines}
        assert f'antiphon_info{{instance_id="{instance}",' in httpx.get(f"{at}/metrics").text
        if name != "cleanup":
            assert any(line.get("session") == "adx_1" for line in lines), name
        assert not [line for line in lines if len(str(line.get("recording", ""))) > 8]
