"""How long `antiphon talk` waits for a worker, and what it sends."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

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


async def test_a_prompt_and_a_voice_that_are_no_utf8_are_sent(tmp_path: Path) -> None:
    """Python has half surrogates for such bytes of a command line, and no message can have them."""
    sent: dict[str, Any] = {}

    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        sent.update(await wire.expect("prepare"))

    async with Scripted(script).running() as server:
        with pytest.raises(typer.Exit):
            await asyncio.to_thread(
                partial(
                    talk,
                    out=tmp_path / "reply.wav",
                    url=server.url,
                    prompt="Be \udcff.",
                    voice="\udcff",
                    patience=0.2,
                )
            )
    assert (sent["prefix_system_prompt"], sent["config"]["voice"]) == ("Be ?.", "?")
