"""What the programs in `bench` measure: which time, which process, which answer."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

import pipeline_cpu
import recorder_peer
import replay_delay
from antiphon.recorder_service.metrics import RecorderMetrics
from hostile_http import Health, watch_health
from support.tcp_server import tcp_server

Measure = Callable[..., None]


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Runs `pipeline_cpu.py`. A run costs 8 CPU-ms in this checkout or with chunks of 200 ms, else 2."""

    def run_bench(
        checkout: Path, sessions: int, seconds: float, folder: Path, extra: Sequence[str] = ()
    ) -> dict[str, Any]:
        cost = 8.0 if checkout == pipeline_cpu.ROOT and "1000" not in extra else 2.0
        return {
            "cpu_ms_per_session_s": {"edge": cost, "generator": 0.9},
            "server_cpu_ms_per_session_s": cost,
            "kinds": {"audio": {"lost": 0, "late": 0}},
        }

    def run(*arguments: str) -> None:
        monkeypatch.setattr("sys.argv", ["pipeline_cpu.py", "--rounds", "1", *arguments])
        pipeline_cpu.main()

    monkeypatch.setattr(pipeline_cpu, "run_bench", run_bench)
    return run


def costs_of_edges(shown: str) -> list[list[str]]:
    return [line.split()[1:] for line in shown.splitlines() if line.startswith("edge ")]


def test_two_checkouts_of_one_name_are_both_measured(
    measure: Measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / pipeline_cpu.ROOT.name
    measure("--against", str(other))
    shown = capsys.readouterr().out
    assert f"{pipeline_cpu.ROOT}: " in shown
    assert f"{other}: " in shown
    assert costs_of_edges(shown) == [["8.00", "4.00", "4.00"], ["2.00", "1.00", "1.00"]]


def test_chunks_of_other_lengths_are_not_normalised(
    measure: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """The load generator sends more messages for shorter chunks: its work is not the same."""
    measure("--chunk-ms", "1000", "200")
    shown = capsys.readouterr().out
    assert "normalised" not in shown
    assert costs_of_edges(shown) == [["2.00"], ["8.00"]]


def test_chunk_lengths_are_not_compared_between_checkouts(
    measure: Measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        measure("--against", str(tmp_path), "--chunk-ms", "1000", "200")
    assert "not allowed with" in capsys.readouterr().err


async def test_health_that_fails_is_counted_and_asked_again() -> None:
    well, busy = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
    answers, waits, health = iter([well, b"", busy, well]), asyncio.Event(), Health()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answer = next(answers, None)
        if answer is None:  # this client gets none
            waits.set()
            await reader.read()
        else:
            writer.write(answer)

    async with tcp_server(serve) as port:
        watching = asyncio.create_task(watch_health(port, health))
        await waits.wait()
        watching.cancel()
        await asyncio.wait([watching])
    assert (health.failures, len(health.seconds)) == (2, 3)


async def test_health_without_a_server_fails() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        health = Health()
        watching = asyncio.create_task(watch_health(unused.getsockname()[1], health))
        while health.failures < 2:
            await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.wait([watching])
    assert health.seconds == []


class Untouched(Collector):
    """Fails if a registry collects it."""

    def collect(self) -> Iterator[Any]:
        raise AssertionError("collected")


def test_the_number_of_entries_costs_the_recorder_no_collection() -> None:
    registry = CollectorRegistry(auto_describe=False)
    metrics = RecorderMetrics(registry)
    metrics.entries.inc(5)
    assert recorder_peer.answer_to("all", metrics)["sessions"] == 0.0
    registry.register(Untouched())
    assert recorder_peer.answer_to("entries", metrics)["entries_total"] == 5.0


async def test_a_call_ends_when_its_client_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder works on the replay while the client waits for `stopped` and closes."""
    asked_at: list[float] = []

    async def nothing(*_: object, **__: object) -> None:
        return None

    async def stop() -> None:
        asked_at.append(time.monotonic())
        await asyncio.sleep(0.2)

    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(
            wait_for_turn=nothing,
            prepare=nothing,
            send_audio=nothing,
            stop=stop,
            recording_id="ab",
        )
        await asyncio.sleep(0.2)

    monkeypatch.setattr(replay_delay, "connect_duplex", connect)
    name, ended_at = await replay_delay.call("ws://nowhere", 0, video=False)
    assert name == "ab"
    assert ended_at <= asked_at[0]
