"""The worker makes an engine listen that does not stop for the user's speech by itself."""

from collections.abc import Callable

import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PreparedOut, PrepareIn, ResultOut
from support.synthetic_speech import GERMANY, cough, silence, spoken
from support.worker_harness import stream_client, worker_loops

QUICK = SimulatedOptions(
    slots=2, prepare_ms=0, prefill_ms=0, listen_ms=0, speak_ms=0, finalize_ms=0, speak_ratio=1.0
)
"""It speaks in every unit."""


def second(sound: Samples) -> Samples:
    audio = np.concatenate([silence(0.1), sound, silence(1.0)])
    return audio[:INPUT_RATE]


async def results(
    broker: Broker, settings: BrokerSettings, config: DuplexConfig, *units: Samples
) -> list[ResultOut]:
    processor = SimulatedProcessor(QUICK)
    worker = WorkerSettings(**{**settings.model_dump(), "slots": 2})
    async with worker_loops(processor, broker, worker), stream_client(broker) as client:
        await client.send(PrepareIn(system_prompt="be brief", config=config))
        await client.expect(PreparedOut)
        found = []
        for unit in units:
            await client.send(ChunkIn(audio=float_bytes(unit)))
            found.append(await client.expect(ResultOut))
        return found


HEARS = DuplexConfig(force_listen_count=0)


@pytest.mark.parametrize(
    ("sound", "config", "stops"),
    [
        (lambda: spoken(GERMANY, lead_s=0.0), HEARS, True),
        (cough, HEARS, False),
        (lambda: spoken(GERMANY, lead_s=0.0), HEARS.model_copy(update={"barge_in": False}), False),
    ],
    ids=["speech", "cough", "off"],
)
async def test_speech_stops_the_model_in_its_own_unit(
    broker: Broker,
    settings: BrokerSettings,
    sound: Callable[[], Samples],
    config: DuplexConfig,
    stops: bool,
) -> None:
    quiet = [silence(1.0)] * 2
    found = await results(broker, settings, config, *quiet, second(sound()), *quiet)
    assert [result.is_listen for result in found] == [False, False, stops, False, False]
    assert [result.interrupted for result in found] == [False, False, stops, False, False]
