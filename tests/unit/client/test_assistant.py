"""A question in one call."""

import asyncio
import pydoc
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon.client.assistant import Client, SpokenReply
from antiphon.client.errors import CannotConnect, NoAnswer
from antiphon.client.sound import paced
from antiphon.shared_schemas.audio import Samples
from support.scripted_server import SPOKEN, Scripted, Wire, speaking

TONE = np.full(40_000, 0.5, np.float32)  # 2.5 s


@pytest.fixture
def short_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fast(chunks: Iterable[Samples], start: float, _: float) -> AsyncIterator[Samples]:
        return paced(chunks, start, 0.02)

    monkeypatch.setattr("antiphon.client.duplex.paced", fast)


async def asked(
    units: list[dict[str, Any]], *, tenfold: bool = False, patience_s: float = 60.0, **options: Any
) -> SpokenReply:
    """The reply of a server that answers the seconds of a question with `units`, then with silence.

    With `tenfold`, the question lasts a tenth of its time, and so do its seconds.
    """
    question, unit_ms = (TONE[::10], 100) if tenfold else (TONE, 1000)

    async def script(wire: Wire) -> None:
        await wire.begin()
        number = 0
        while (await wire.next())["type"] != "stop":
            number += 1
            unit = units[number - 1] if number <= len(units) else LISTEN
            await wire.send("result", **unit | {"current_time": number * unit_ms})
        await wire.send("stopped", session_id="s")

    async with Scripted(script).running() as server:
        return await Client(server.url).aask(question, patience_s=patience_s, **options)


LISTEN = {"is_listen": True}


def ends(text: str) -> dict[str, Any]:
    return speaking(text, end_of_turn=True)


async def test_asking_where_a_loop_runs_is_refused_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=r"use `await client.aask\(\.\.\.\)`"):
        Client("ws://127.0.0.1:1").ask(np.zeros(16000, np.float32))


def test_the_public_names_exist() -> None:
    for name in set(antiphon.__all__) - {"__version__"}:
        assert getattr(antiphon, name).__name__ == name


def test_help_and_completion_show_the_client() -> None:
    assert set(antiphon.__all__) <= set(dir(antiphon))
    shown = pydoc.render_doc(antiphon, renderer=pydoc.plaintext)
    # Python 3.14 writes each parameter of a long signature on a line of its own.
    assert re.search(r"\bask\([\s|]*self,[\s|]*question:", shown)
    assert re.search(r"\bconnect_duplex\(\s*url:", shown)


async def test_a_session_that_ends_early_is_no_reply() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        await wire.expect("prepare")
        await wire.send("prepared", prompt_length=1, recording_session_id=None)
        await wire.expect("audio_chunk")
        await wire.send("stopped", session_id="s")
        await wire.socket.close()

    async with Scripted(script).running() as server:
        with pytest.raises(NoAnswer, match="the session ended before the reply was complete"):
            await Client(server.url).aask(np.zeros(16000, np.float32))


@pytest.mark.usefixtures("short_seconds")
async def test_the_reply_keeps_the_words_that_came_during_the_question() -> None:
    said = [LISTEN, speaking("The capital of France"), speaking(" is"), ends(" Paris.")]
    reply = await asked(said)
    [turn] = reply.turns
    assert reply.text == turn.text == "The capital of France is Paris."
    assert (turn.start_s, turn.end_s, turn.interrupted) == (2.0, 4.0, False)
    np.testing.assert_array_equal(reply.audio, np.tile(SPOKEN, 3))


@pytest.mark.usefixtures("short_seconds")
async def test_the_turns_of_a_reply_are_told_apart() -> None:
    """One is interrupted, one follows another without a pause, and one begins after a complete one."""
    said = [speaking("Once upon a"), LISTEN, ends(" Rome."), LISTEN, LISTEN, ends("Oslo.")]
    reply = await asked(said[:3])
    assert [turn.text for turn in reply.turns] == ["Once upon a", "Rome."]
    assert [turn.interrupted for turn in reply.turns] == [True, False]
    assert reply.text == "Once upon a Rome."
    reply = await asked([LISTEN, speaking("Ro"), ends("me."), said[5]])
    assert [turn.text for turn in reply.turns] == ["Rome.", "Oslo."]
    reply = await asked([LISTEN, speaking("Ro"), ends("me."), LISTEN, LISTEN, said[5]])
    assert reply.text == "Rome. Oslo."


@pytest.mark.usefixtures("short_seconds")
async def test_a_complete_answer_to_a_part_of_the_question_is_not_lost() -> None:
    assert (await asked([ends("Paris.")], tenfold=True, patience_s=1.0)).text == "Paris."


@pytest.mark.usefixtures("short_seconds")
@pytest.mark.parametrize("said", [[], [LISTEN, LISTEN, LISTEN, speaking("Once upon")]])
async def test_an_answer_without_its_end_is_none_and_its_words_are_kept(
    said: list[dict[str, Any]],
) -> None:
    with pytest.raises(NoAnswer, match=r"no complete reply within 1 s") as missing:
        await asked(said, tenfold=True, patience_s=1.0)
    assert [turn.text for turn in missing.value.turns] == [unit["text"] for unit in said[3:]]
    assert ("Once upon" in missing.value.message) == bool(said)


@pytest.mark.usefixtures("short_seconds")
async def test_an_endless_answer_is_given_up() -> None:
    endless = [speaking("la ")] * 500
    with pytest.raises(NoAnswer, match=r"the reply did not end within 0\.2 s; the model said: la"):
        await asked(endless, tenfold=True, longest_s=0.2)


@pytest.mark.usefixtures("short_seconds")
async def test_a_server_that_sends_nothing_more_is_given_up() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish(during_audio=True)

    async with Scripted(script).running() as server:
        with pytest.raises(NoAnswer, match=r"no complete reply within 1 s"):
            await Client(server.url).aask(TONE[::10], patience_s=1.0)


@pytest.mark.parametrize("granted", [False, True])
async def test_a_server_that_does_not_prepare_the_session_is_given_up(granted: bool) -> None:
    async def script(wire: Wire) -> None:
        if granted:
            await wire.send("queue_done")
        await wire.socket.wait_closed()

    words = "did not prepare the session within" if granted else "no answer came within"
    async with asyncio.timeout(60), Scripted(script).running() as server:
        with pytest.raises(NoAnswer, match=rf"{words} 1 s"):
            await Client(server.url).aask(TONE, patience_s=1.0)


@pytest.mark.usefixtures("short_seconds")
async def test_an_empty_answer_is_a_reply() -> None:
    reply = await asked([LISTEN, LISTEN, {"is_listen": False, "text": "", "end_of_turn": True}])
    assert (reply.text, len(reply.audio), len(reply.turns)) == ("", 0, 1)


@pytest.mark.usefixtures("short_seconds")
async def test_ask_takes_what_prepare_takes() -> None:
    prepared: list[dict[str, Any]] = []

    async def script(wire: Wire) -> None:
        prepared.append(await wire.begin())
        await wire.expect("audio_chunk")
        await wire.send("result", **ends("Yes.") | {"current_time": 5000})
        await wire.finish(during_audio=True)

    async with Scripted(script).running() as server:
        await Client(server.url).aask(
            TONE,
            system_prompt="Be brief.",
            config={"temperature": 0.5},
            ref_audio=TONE[:1600],
            tts_ref_audio=TONE[:160],
            ref_audio_path="voice.wav",
        )
    [message] = prepared
    assert message["prefix_system_prompt"] == "Be brief."
    assert message["config"] == {"temperature": 0.5}
    assert message["ref_audio_path"] == "voice.wav"
    assert len(message["ref_audio_base64"]) > len(message["tts_ref_audio_base64"]) > 100


def test_an_error_is_no_consequence_of_another_one() -> None:
    with pytest.raises(CannotConnect) as away:
        Client("ws://127.0.0.1:1").ask(TONE)
    error: BaseException | None = away.value
    while error is not None:
        assert not isinstance(error, RuntimeError)
        error = error.__context__
