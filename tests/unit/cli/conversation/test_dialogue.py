"""A live conversation, with a sound card that the test controls."""

import asyncio
import io
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from antiphon.cli.conversation import dialogue
from antiphon.cli.conversation.dialogue import ConversationPrinter
from antiphon.cli.conversation.sound import Headset
from antiphon.cli.terminal import Terminal
from antiphon.client.errors import ClientError
from antiphon.shared_schemas.audio import Samples
from support.scripted_server import SPOKEN, Scripted, Wire, speaking


class HalfPlayback(Headset):
    """Plays half of the audio before the rest is dropped."""

    def __init__(self, chunk_s: float) -> None:
        self._chunk_s = chunk_s
        self._captured: asyncio.Queue[Samples] = asyncio.Queue()
        self.given = 0
        self.asked = 0

    def __enter__(self) -> Self:
        self._captured.put_nowait(np.zeros(16_000, np.float32))
        return self

    def __exit__(self, *_: object) -> None:
        return

    @property
    def is_playing(self) -> bool:
        self.asked += 1
        return self.asked == 1

    def play(self, samples: Samples) -> None:
        self.given += len(samples)

    def drop_unplayed(self) -> float:
        return self.given / 2 / 24


async def test_the_playback_position_of_an_interrupted_answer_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acks: list[dict[str, Any]] = []

    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("audio_chunk")
        await wire.send("result", **speaking("Well, "))
        await wire.send("result", **speaking("you see"))
        await wire.send("result", is_listen=True, interrupted=True, current_time=3000)
        acks.append(await wire.expect("playback_ack"))
        await wire.send("result", is_listen=True, current_time=4000)
        await wire.send("timeout", reason="enough")

    monkeypatch.setattr(dialogue, "Headset", HalfPlayback)
    printer = ConversationPrinter(Terminal(file=io.StringIO()))
    async with Scripted(script).running() as server:
        with suppress(ClientError):
            call = dialogue.Call(url=server.url, prompt="Hi.", out=tmp_path / "reply.wav")
            await dialogue.talk_live(call, 30, printer)
    assert acks == [{"type": "playback_ack", "played_ms": len(SPOKEN) / 24}]


async def test_a_conversation_ends_when_the_answer_to_a_goodbye_was_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after an answer that follows the goodbye, and not while the speaker still plays."""
    sent = 0

    async def script(wire: Wire) -> None:
        nonlocal sent
        await wire.begin()
        await wire.expect("audio_chunk")
        goodbye = {**speaking("Goodbye!"), "end_of_turn": True, "goodbye": True}
        yes = {**speaking("Yes?"), "end_of_turn": True}
        results = [goodbye, yes, *[{"is_listen": True}] * 2, goodbye]
        for result in [*results, *[{"is_listen": True}] * 2]:
            sent += 1
            await wire.send("result", **result | {"current_time": 1000 * sent})
        await wire.finish(during_audio=True)

    monkeypatch.setattr(dialogue, "Headset", HalfPlayback)
    out = io.StringIO()
    async with Scripted(script).running() as server:
        call = dialogue.Call(url=server.url, prompt="Hi.", out=tmp_path / "reply.wav")
        await asyncio.wait_for(
            dialogue.talk_live(call, 30, ConversationPrinter(Terminal(file=out))), 30
        )
    assert sent == 7
    assert out.getvalue().count("listening") == 4
