"""The worker stops the tiny model when the user speaks into its answer."""

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PreparedOut, PrepareIn, ResultOut
from support.minicpmo import golden_set
from support.synthetic_speech import GERMANY, silence, spoken
from support.worker_harness import stream_client, worker_loops

# With it, the model speaks in every unit.
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)


@pytest.fixture(scope="module")
def engine() -> Iterator[UnifiedProcessor]:
    options = {"context_tokens": 640, "speech_tokens": 256, "device": "cpu"}
    path = golden_set.CHECKPOINT
    processor = build_processor("minicpmo", slots=1, model_path=path, options=options)
    processor.load(lambda _: None)
    yield processor
    processor.close()


async def results(
    engine: UnifiedProcessor,
    broker: Broker,
    settings: BrokerSettings,
    audio: Samples,
    *,
    barge_in: bool = True,
) -> list[ResultOut]:
    worker = WorkerSettings(**{**settings.model_dump(), "slots": 1})
    async with worker_loops(engine, broker, worker), stream_client(broker) as client:
        config = GREEDY.model_copy(update={"barge_in": barge_in})
        prompt = golden_set.system_prompt("g_window_basic")
        await client.send(PrepareIn(system_prompt=prompt, config=config))
        await client.expect(PreparedOut)
        found = []
        for unit in audio.reshape(-1, INPUT_RATE):
            await client.send(ChunkIn(audio=float_bytes(unit)))
            found.append(await client.expect(ResultOut))
        return found


UNITS = 4


def into_an_answer(begin_s: float) -> Samples:
    speech = spoken(GERMANY, lead_s=begin_s)[: UNITS * INPUT_RATE]
    return np.pad(speech, (0, UNITS * INPUT_RATE - len(speech)))


@pytest.mark.parametrize("begin_s", [1.05, 1.4, 1.85])
async def test_at_most_one_unit_is_spoken_over_the_user(
    engine: UnifiedProcessor, broker: Broker, settings: BrokerSettings, begin_s: float
) -> None:
    found = await results(engine, broker, settings, into_an_answer(begin_s))
    assert not found[0].is_listen
    cut = [result.interrupted for result in found].index(True)
    assert found[cut].is_listen
    assert cut <= 2  # unit 1 has the begin of the speech


@pytest.mark.parametrize(
    ("audio", "barge_in"), [(silence(UNITS), True), (into_an_answer(1.05), False)]
)
async def test_the_model_speaks_on_in_silence_and_without_the_guard(
    engine: UnifiedProcessor,
    broker: Broker,
    settings: BrokerSettings,
    audio: Samples,
    barge_in: bool,
) -> None:
    found = await results(engine, broker, settings, audio, barge_in=barge_in)
    assert not any(result.is_listen or result.interrupted for result in found)
