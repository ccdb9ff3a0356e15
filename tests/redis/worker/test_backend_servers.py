"""Sessions of a worker whose engine is on other servers."""

from contextlib import ExitStack

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, ErrorOut, PreparedOut, PrepareIn, ResultOut
from antiphon.shared_schemas.errors import ErrorCode
from support.backend_server import DIE, Event, ScriptedBackend, ScriptedSession, listen
from support.stack import until
from support.worker_harness import stream_client, worker_loops

SECOND = ChunkIn(audio=bytes(4 * 16_000))


def dies_after_one(session: ScriptedSession, _: Event) -> list[Event]:
    return [listen()] if session.count == 1 else [DIE]


async def test_a_lost_server_ends_its_session_and_takes_its_slot_away(
    broker: Broker, settings: BrokerSettings
) -> None:
    servers = [ScriptedBackend(is_llama=False) for _ in range(2)]
    for server in servers:
        server.script = dies_after_one
    with ExitStack() as stack:
        addresses = [stack.enter_context(server.running()).address for server in servers]
        engine = build_processor("backend", slots=2, options={"addresses": addresses})
        stack.callback(engine.close)
        engine.load(lambda _: None)

        async def slots(count: int) -> None:
            async def shown() -> bool:
                return [row.slots for row in (await broker.queue.snapshot()).workers] == [count]

            await until(shown, within_s=60)

        values = WorkerSettings(**settings.model_dump(), slots=2)
        async with worker_loops(engine, broker, values):
            await slots(2)
            async with stream_client(broker) as client:
                await client.send(PrepareIn(system_prompt="", config=DuplexConfig()))
                await client.expect(PreparedOut)
                await client.send(SECOND)
                await client.expect(ResultOut)
                await client.send(SECOND)
                error = await client.expect(ErrorOut)
                await client.ended()
            assert (error.code, error.fatal) == (ErrorCode.INFERENCE_ERROR, True)
            assert "the connection to the backend server is lost" in error.message
            await slots(1)
            for server in servers:
                server.healthy = True
            await slots(2)
