"""Version 2 of the realtime API in the client, against a server that follows a script."""

from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pybase64
import pytest

from antiphon.client.errors import InvalidAudio, ServerError
from antiphon.client.realtime import Listen, Spoken, connect_realtime, connect_realtime_chat
from antiphon.shared_schemas.messages.realtime_v2 import SessionCreatedV2
from support.realtime_schema import CLIENT_V2
from support.scripted_server import SPOKEN, Scripted, Wire

SECOND = np.full(16000, 0.25, dtype=np.float32)
SOUND = pybase64.b64encode_as_string(SPOKEN.tobytes())
IDS = {"response_id": "resp_7_1", "session_id": "rt_7"}
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
TOOL = {"type": "function", "function": {"name": "now"}}


async def _receive(wire: Wire, kind: str) -> dict[str, Any]:
    event = await wire.expect(kind)
    CLIENT_V2.validate(event)
    return event


async def _begin(wire: Wire, mode: str) -> dict[str, Any]:
    await wire.send("session.queue_done")
    init = await _receive(wire, "session.init")
    await wire.send("session.created", session_id="rt_7", prompt_length=3, mode=mode, usage=USAGE)
    return init


async def _finish(wire: Wire) -> None:
    await _receive(wire, "session.close")
    await wire.send("session.closed", reason="client_closed", session_id="rt_7")


async def test_a_full_duplex_session() -> None:
    async def script(wire: Wire) -> None:
        payload = (await _begin(wire, "full_duplex"))["payload"]
        assert payload["system_prompt"] == "Be brief."
        assert payload["config"] == {"length_penalty": 1.05}
        assert pybase64.b64decode(payload["voice"]["ref_audio_base64"]) == SECOND.tobytes()
        asked = (await _receive(wire, "input.append"))["input"]
        assert (asked["force_listen"], len(asked["video_frames"])) == (True, 1)
        assert pybase64.b64decode(asked["audio"]) == SECOND.tobytes()
        metrics = {"kv_cache_length": 9, "wall_clock_ms": 1.0}
        delta = {**IDS, "metrics": metrics, "usage": {**USAGE, "total_tokens": 9}}
        await wire.send("response.output.delta", kind="text", text="Hi.", **delta)
        await wire.send("response.output.delta", kind="audio", audio=SOUND, **delta)
        await wire.send("response.output.delta", kind="listen", **delta)
        await _finish(wire)

    async with (
        Scripted(script).running() as server,
        connect_realtime(server.url, mode="video", version=2) as session,
    ):
        assert "mode=video" in server.path
        await session.wait_for_turn()
        config = {"length_penalty": 1.05}
        with pytest.raises(TypeError, match=r"no setting 'lenght_penalty'; did you mean 'length_"):
            await session.update(config={"lenght_penalty": 1.05})
        created = await session.update("Be brief.", ref_audio=SECOND, config=config)
        assert isinstance(created, SessionCreatedV2)
        assert (created.session_id, created.usage, session.usage) == ("rt_7", USAGE, USAGE)
        await session.append(SECOND, frames=[b"\xff\xd8jpeg"], force_listen=True)
        events = session.events()
        text, sound, listen = [await anext(events) for _ in range(3)]
        assert isinstance(text, Spoken)
        assert (text.text, text.audio.size, text.kv_cache_length) == ("Hi.", 0, 9)
        assert isinstance(sound, Spoken)
        assert sound.text == ""
        np.testing.assert_array_equal(sound.audio, SPOKEN)
        assert listen == Listen(kv_cache_length=9)
        assert session.usage is not None
        assert session.usage["total_tokens"] == 9
        await session.stop()
        assert session.ended_by == "client_closed"


async def test_version_1_has_some_settings_and_refuses_others() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("session.queue_done")
        settings = (await wire.expect("session.update"))["session"]
        assert settings == {"instructions": "Be brief.", **chosen}
        await wire.send("session.created", session_id="rt_1", prompt_length=3)

    chosen = {"voice": "emma", "barge_in": False, "record": False}
    async with Scripted(script).running() as server, connect_realtime(server.url) as session:
        with pytest.raises(ValueError, match=r"config: length_penalty needs .*version=2"):
            await session.update(config={"length_penalty": 1.05, "record": False})
        await session.update("Be brief.", config=chosen)


async def test_a_chat_with_several_requests() -> None:
    async def script(wire: Wire) -> None:
        await _begin(wire, "turn_based")
        first = (await _receive(wire, "input.append"))["input"]
        assert first["messages"] == [{"role": "user", "content": "Hello."}]
        assert (first["streaming"], first["tools"]) == (True, [TOOL])
        assert first["generation"]["max_new_tokens"] == 8
        await wire.send("response.output.delta", kind="text", text="Hi", **IDS)
        await wire.send("response.output.delta", kind="audio", audio=SOUND, **IDS)
        call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        done = {**IDS, "text": "Hi", "reason": "turn_end", "usage": USAGE}
        await wire.send("response.done", **done, tool_calls=[call])
        second = (await _receive(wire, "input.append"))["input"]
        assert (len(second["messages"]), second["streaming"]) == (2, False)
        await wire.send("response.done", **{**done, "text": "Noon."}, audio=SOUND)
        await _finish(wire)

    async with (
        Scripted(script).running() as server,
        connect_realtime_chat(server.url) as chat,
    ):
        assert "mode=chat" in server.path
        assert chat.created.mode == "turn_based"
        generation = {"max_new_tokens": 8}
        pieces = [p async for p in chat.ask("Hello.", generation=generation, tools=[TOOL])]
        assert [piece.text for piece in pieces] == ["Hi", ""]
        np.testing.assert_array_equal(pieces[1].audio, SPOKEN)
        assert (chat.done.text, chat.done.reason, chat.done.usage) == ("Hi", "turn_end", USAGE)
        assert chat.done.tool_calls is not None
        calls = chat.done.tool_calls
        history = [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
        ]
        done = await chat.whole(history)
        assert (done.text, done.audio) == ("Noon.", SPOKEN.tobytes())


async def test_an_error_ends_a_chat() -> None:
    async def script(wire: Wire) -> None:
        await _begin(wire, "turn_based")
        await _receive(wire, "input.append")
        error = {"code": "invalid_payload", "message": "messages: wrong", "type": "client_error"}
        await wire.send("error", error=error)
        await wire.send("session.closed", reason="error", diagnostic={"message": "wrong"})

    async with (
        Scripted(script).running() as server,
        connect_realtime_chat(server.url) as chat,
    ):
        with pytest.raises(ServerError, match="messages: wrong"):
            await chat.whole("Hello.")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_chunk_may_be_short_in_version_2_alone(version: Literal[1, 2]) -> None:
    async def script(wire: Wire) -> None:
        if version == 2:
            asked = (await _receive(wire, "input.append"))["input"]
            assert len(pybase64.b64decode(asked["audio"])) == SECOND[:3200].nbytes
        await wire.expect("session.close")
        await wire.send("session.closed", reason="client_closed", session_id="rt_7")

    async with (
        Scripted(script).running() as server,
        connect_realtime(server.url, version=version) as session,
    ):
        too_short = pytest.raises(InvalidAudio, match=r"at least 4000 are needed: .* version 2")
        with too_short if version == 1 else nullcontext():
            await session.append(SECOND[:3200])
        wrong: Any = None
        with pytest.raises(InvalidAudio, match="audio is a NoneType"):
            await session.append(wrong)


async def test_an_end_without_a_diagnostic_is_read() -> None:
    """A session that ends before its first message gets the events of version 1."""

    async def script(wire: Wire) -> None:
        await wire.send("session.closed", reason="timeout")

    async with (
        Scripted(script).running() as server,
        connect_realtime(server.url, version=2) as session,
    ):
        assert [item async for item in session.events()] == []
        assert session.ended_by == "timeout"
