"""`antiphon talk` whose connection breaks, or that no worker serves."""

import os
from pathlib import Path

import pytest
import soundfile

from support.fork_server import ForkedProcess, fork_server
from support.stack import Stack, until
from support.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.extended

ENGINE = '{"cycle_units": 8, "listen_ms": 100}'


def talk(url: str, folder: Path, *options: str) -> ForkedProcess:
    return fork_server().start(
        "antiphon.cli.main",
        *("talk", "--url", url, *options),
        folder=folder,
        environment=os.environ | {"NO_COLOR": "1"},
        output=folder / "output",
    )


def shown(folder: Path) -> str:
    output = folder / "output"
    return output.read_text() if output.exists() else ""


async def test_a_conversation_continues_on_a_new_connection(stack: Stack, tmp_path: Path) -> None:
    stack.edge()
    stack.worker(engine_options=ENGINE)
    async with tcp_proxy(stack.edge_port) as proxy:
        process = talk(f"ws://{proxy.address}", tmp_path)
        await until(lambda: "listening" in shown(tmp_path), within_s=90)
        proxy.reset()
        await until(lambda: process.poll() is not None, within_s=90)
    lines = shown(tmp_path).splitlines()
    assert process.poll() == 0, lines
    broken = lines.index("   waiting  the connection broke; trying to connect again")
    assert lines[broken + 1] == " connected  connected again"
    times = [line.split()[0] for line in lines if " s  listening" in line or " s  speaking" in line]
    assert times == [f"{1 + number:.1f}" for number in range(len(times))]
    assert soundfile.info(tmp_path / "reply.wav").duration > 0


async def test_an_edge_that_does_not_return_is_an_error(stack: Stack, tmp_path: Path) -> None:
    edge = stack.edge()
    stack.worker(engine_options=ENGINE)
    process = talk(stack.ws_url, tmp_path)
    await until(lambda: "listening" in shown(tmp_path), within_s=90)
    edge.kill()
    await until(lambda: process.poll() is not None, within_s=90)
    assert process.poll() == 1
    assert "no edge continues the session" in shown(tmp_path).splitlines()[-1]


async def test_a_question_waits_for_a_worker_as_long_as_for_an_answer(
    stack: Stack, tmp_path: Path
) -> None:
    stack.edge()
    process = talk(stack.ws_url, tmp_path, "--patience", "1")
    await until(lambda: process.poll() is not None, within_s=90)
    assert process.poll() == 1
    assert shown(tmp_path).splitlines()[-1] == "antiphon: no worker is connected"
