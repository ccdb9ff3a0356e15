"""A device that fails below torch while workers with the tiny model serve clients."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from antiphon.inference_worker.engines.minicpmo.device import DEVICE_LOST
from support.fault_stack import Talker, fault_stack
from support.minicpmo import failing_device, golden_set
from support.raw_client import open_wire
from support.stack import Service, Stack, until

SILENT = {"generate_audio": False, "temperature": 0.0}


async def _worker(stack: Stack, fault: Path) -> Service:
    worker = stack.start(
        "inference_worker",
        main=failing_device.__name__,
        engine="minicpmo",
        engine_options='{"device": "cpu"}',
        model_path=golden_set.CHECKPOINT,
        slots=2,
        device_fault_file=fault,
    )
    await until(
        lambda: "worker_ready" in worker.log or worker.process.poll() is not None, within_s=120
    )
    assert worker.process.poll() is None, worker.log
    return worker


async def test_f24_a_device_that_fails_below_torch(tmp_path: Path) -> None:
    """No memory for one operation costs one unit. A lost device costs the worker, but no session."""
    fault = tmp_path / "first"
    async with fault_stack(tmp_path) as faults, AsyncExitStack() as sockets:
        stack = faults.stack
        stack.expected = "batch_failed"
        await faults.edge()
        first = await _worker(stack, fault)
        talkers = []
        for sid in ("adx_1", "adx_2"):
            wire = await sockets.enter_async_context(open_wire(stack.ws_url, sid))
            await wire.begin(config=SILENT, deferred_finalize=False)
            talkers.append(Talker(wire))
        await asyncio.gather(*(talker.talk(1) for talker in talkers))

        fault.write_text("full")
        await talkers[0].wire.send_second()
        error = await talkers[0].wire.expect("error")
        assert error["code"] == "inference_error"
        assert "out of memory" in error["message"]
        await asyncio.gather(*(talker.talk(2) for talker in talkers))
        talkers[1].check()
        assert first.process.poll() is None

        second = await _worker(stack, tmp_path / "second")
        fault.write_text("lost")
        await asyncio.gather(*(talker.talk(2) for talker in talkers))
        assert first.process.poll() == DEVICE_LOST
        assert "device_lost" in first.log
        assert second.log.count("session_recovered") == 2
        talkers[1].check()
        for talker in talkers:
            await talker.wire.send(type="stop")
            await talker.wire.expect("stopped")
        await faults.stack.no_session_left()
