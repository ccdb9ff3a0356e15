"""How long `antiphon chat` waits for an answer, and what it sends."""

import asyncio

import pytest
import typer

from antiphon.cli.commands.chat import chat
from support.scripted_server import Script, Scripted, Wire

PATIENCE_S = 0.5


async def ask(script: Script) -> None:
    async def limited(wire: Wire) -> None:
        await wire.next()
        await script(wire)
        async with asyncio.timeout(30):  # the client gives up before
            await wire.socket.wait_closed()

    async with Scripted(limited).running() as server:
        await asyncio.to_thread(chat, "Who are you?", server.url, patience=PATIENCE_S)


async def served(wire: Wire) -> None:
    await wire.send("queue_done")


async def granted_without_a_word(_: Wire) -> None:
    return


@pytest.mark.parametrize("script", [served, granted_without_a_word])
async def test_an_answer_that_does_not_begin(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        await ask(script)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "antiphon: no answer came within 0.5 s\n"


async def test_an_answer_that_does_not_continue(capsys: pytest.CaptureFixture[str]) -> None:
    async def script(wire: Wire) -> None:
        await wire.send("prefill_done", input_tokens=3)
        await wire.send("chunk", text_delta="I am ")

    with pytest.raises(typer.Exit) as ended:
        await ask(script)
    assert ended.value.exit_code == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "I am \n",
        "antiphon: the answer did not continue within 0.5 s\n",
    )


async def test_a_queue_and_a_long_question_are_no_silence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def script(wire: Wire) -> None:
        place = {"ticket_id": "t", "position": 1, "queue_length": 1}
        await wire.send("queued", **place, eta_seconds=9, estimated_wait_s=9)
        await asyncio.sleep(PATIENCE_S * 1.5)
        await wire.send("queue_done")
        for number in range(5):
            await wire.send("progress", done=number / 5)
            await asyncio.sleep(PATIENCE_S / 2)
        await wire.send("prefill_done", input_tokens=3)
        await wire.send("chunk", text_delta="Antiphon.")
        await wire.send(
            *("done",),
            text="Antiphon.",
            generated_tokens=1,
            input_tokens=3,
            recording_session_id="r",
        )
        await wire.socket.close()

    await ask(script)
    assert capsys.readouterr().out == "Antiphon.\n"


async def test_a_prompt_that_is_no_utf8_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Python has half surrogates for such bytes of a command line, and no message can have them."""
    sent: list[dict[str, object]] = []

    async def answer(wire: Wire) -> None:
        sent.extend((await wire.next())["messages"])
        await wire.send("prefill_done", input_tokens=3)
        await wire.send("chunk", text_delta="I am here.")
        await wire.send("done", text="I am here.")

    async with Scripted(answer).running() as server:
        await asyncio.to_thread(
            chat, "Who\udcff?", server.url, prompt="Be \udcff.", patience=PATIENCE_S
        )
    assert [one["content"] for one in sent] == ["Be ?.", "Who??"]
    assert capsys.readouterr().out == "I am here.\n"
