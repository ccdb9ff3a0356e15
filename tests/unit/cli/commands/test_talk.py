"""How long `antiphon talk --mic` waits for a worker."""

import asyncio
from pathlib import Path

import pytest
import typer

from antiphon.cli.commands.talk import talk
from support.scripted_server import Scripted, Wire


@pytest.mark.parametrize("granted", [False, True])
async def test_a_server_that_does_not_prepare_the_session_is_given_up(
    granted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(wire: Wire) -> None:
        if granted:
            await wire.send("queue_done")
        async with asyncio.timeout(30):  # the client gives up before
            await wire.socket.wait_closed()

    async with Scripted(script).running() as server:
        with pytest.raises(typer.Exit) as ended:
            await asyncio.to_thread(talk, None, tmp_path / "reply.wav", server.url, patience=0.2)
    assert ended.value.exit_code == 1
    assert "within 0.2 s" in capsys.readouterr().err


async def test_a_live_conversation_without_a_worker_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queued", ticket_id="t", position=1, queue_length=1, reason="no_worker")
        async with asyncio.timeout(30):  # the client gives up before
            await wire.socket.wait_closed()

    async with Scripted(script).running() as server:
        with pytest.raises(typer.Exit) as ended:
            await asyncio.to_thread(
                talk, None, tmp_path / "reply.wav", server.url, mic=True, patience=0.2
            )
    assert ended.value.exit_code == 1
    assert "antiphon: no worker is connected" in capsys.readouterr().err
