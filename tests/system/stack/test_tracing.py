"""One trace per session over real processes, as a collector receives it."""

import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from antiphon.broker.client import open_broker
from antiphon.broker.service.tracing import TracingUnavailable, open_tracing
from support.otlp_receiver import OtlpReceiver, Seen
from support.ports import free_port
from support.raw_client import open_wire
from support.stack import Stack, until

pytestmark = pytest.mark.extended

UNIT = ("edge.in", "worker.wait", "engine", "publish", "edge.out")


@pytest.fixture
def collector(stack: Stack) -> Iterator[OtlpReceiver]:
    """Every process of the stack sends its spans here, at once."""
    stack.environment["OTEL_BSP_SCHEDULE_DELAY"] = "50"
    with OtlpReceiver() as receiver:
        stack.environment["ANTIPHON_OTLP_ENDPOINT"] = receiver.url
        yield receiver
        stack.close(within_s=60)  # the remaining spans are sent now, while a collector still runs


def unit_of(collector: OtlpReceiver, begun: Seen) -> list[Seen]:
    """The spans of one unit, in the order of the work."""
    under = [span for span in collector.spans if span.parent == begun.id]
    return [begun, *sorted(under, key=lambda span: UNIT.index(span.name))]


async def test_a_session_is_one_trace_with_a_span_per_unit_and_hop(
    stack: Stack, collector: OtlpReceiver
) -> None:
    stack.edge()
    stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        for _ in range(3):
            await wire.send_second()
            await wire.expect("result")
        async with open_broker(stack.settings) as broker:
            row = await broker.sessions.get("adx_1")
        await wire.send(type="stop")
        await wire.expect("stopped")
    await until(
        lambda: len(collector.named("session")) == 1 and len(collector.named("publish")) == 3
    )
    await until(lambda: len(collector.named("edge.out")) == 3)
    [session] = collector.named("session")
    assert session.parent == ""
    assert session.attributes["antiphon.session"] == "adx_1"
    assert {span.trace for span in collector.spans} == {session.trace}
    assert row is not None
    assert row.trace.decode().split("-")[:3] == ["00", session.trace, session.id]
    assert collector.paths == {"/v1/traces"}

    taken = collector.named("edge.in")
    assert {span.parent for span in taken} == {session.id}
    chunks = [span for span in taken if span.attributes["antiphon.entry"] == "chunk"]
    assert len(chunks) == 3
    for begun in chunks:
        unit = unit_of(collector, begun)
        assert tuple(span.name for span in unit) == UNIT
        assert [span.service for span in unit] == [
            "antiphon-edge",
            *["antiphon-worker"] * 3,
            "antiphon-edge",
        ]
        for earlier, later in pairwise(unit[1:4]):  # one process, so one clock
            assert earlier.ended <= later.began
        assert all(span.ended >= span.began for span in unit)
    assert session.began <= chunks[0].began
    assert chunks[-1].ended <= session.ended


async def test_a_session_resumed_on_another_edge_stays_one_trace(
    stack: Stack, collector: OtlpReceiver
) -> None:
    first, other_port = stack.edge(), free_port()
    stack.edge(port=other_port)
    stack.worker()
    async with open_wire(stack.ws_url, "adx_1", "?resume=1") as wire:
        prepared = await wire.begin()
        first.kill()
    back = f"?resume_token={prepared['resume_token']}&seq={prepared['seq']}"
    async with open_wire(f"ws://127.0.0.1:{other_port}", "adx_1", back) as wire:
        await wire.expect("resumed")
        await wire.send_second()
        await wire.until("result")
        await wire.send(type="stop")
        await wire.until("stopped")
    await until(lambda: collector.named("session") and collector.named("publish"))
    [resumed] = collector.named("session")  # the killed edge had not sent its spans
    assert resumed.parent != ""
    assert {span.trace for span in collector.spans} == {resumed.trace}


async def test_an_unreachable_collector_has_no_effect(stack: Stack) -> None:
    stack.environment["ANTIPHON_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    edge = stack.edge()
    worker = stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire:
        await wire.begin()
        await wire.send_second()
        await wire.expect("result")
    assert (edge.stop(), worker.stop()) == (0, 0)


async def test_without_a_collector_nothing_is_traced(stack: Stack) -> None:
    stack.edge()
    stack.worker()
    async with open_wire(stack.ws_url, "adx_1") as wire, open_broker(stack.settings) as broker:
        await wire.begin()
        await wire.send_second()
        await wire.expect("result")
        row = await broker.sessions.get("adx_1")
        assert row is not None
        assert row.trace == b""
        for key in (broker.keys.inbound("adx_1"), broker.keys.outbound("adx_1")):
            async for _, entry in broker.streams.history(key, row.ticket):
                assert entry.trace == b""


async def test_a_missing_package_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTIPHON_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(TracingUnavailable, match=r"pip install '\.\[otel\]'"):
        async with open_tracing("edge", "edge-1"):
            pass


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "ANTIPHON_OTLP_ENDPOINT"])
async def test_either_variable_enables_tracing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async with open_tracing("edge", "edge-1") as off:
        assert off is None
    with OtlpReceiver() as receiver:
        monkeypatch.setenv(name, receiver.url)
        async with open_tracing("edge", "edge-1") as tracing:
            assert tracing is not None
            tracing.begin("session", 1000.0).end(1500.0)
        [span] = receiver.spans
    assert (span.began, span.ended) == (1_000_000_000, 1_500_000_000)
    assert (span.service, span.instance) == ("antiphon-edge", "edge-1")
