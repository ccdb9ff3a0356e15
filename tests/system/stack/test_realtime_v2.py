"""Version 2 of `/v1/realtime` through every process, with a client that accepts nothing unknown."""

import base64
from functools import partial
from typing import Any

import httpx
import numpy as np

from antiphon.client.realtime import Listen, Spoken, connect_realtime
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.messages.realtime_v2 import SessionCreatedV2
from support.raw_client import Wire, open_path
from support.realtime_schema import SERVER_V2
from support.stack import Stack, until

WEBM = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm" + bytes(40)
SECOND = base64.b64encode(np.zeros(INPUT_RATE, np.float32).tobytes()).decode()
KNOWN = frozenset(
    {
        *("session.queued", "session.queue_update", "session.queue_done", "session.created"),
        *("response.output.delta", "session.closed"),
    }
)


class StrictClient:
    """Knows only the documented events, needs `response_id`, and waits for the output of each input."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def event(self) -> dict[str, Any]:
        event = await self._wire.message()
        assert event["type"] in KNOWN, event
        SERVER_V2.validate(event)
        return event

    async def expect(self, kind: str) -> dict[str, Any]:
        while (event := await self.event())["type"] in ("session.queued", "session.queue_update"):
            pass
        assert event["type"] == kind, event
        return event

    async def begin(self) -> str:
        await self.expect("session.queue_done")
        voice = {"ref_audio_base64": SECOND, "tts_ref_audio_base64": SECOND}
        payload = {"system_prompt": "Be brief.", "voice": voice, "mode": "full_duplex"}
        await self._wire.send(type="session.init", payload=payload)
        return str((await self.expect("session.created"))["session_id"])

    async def second(self) -> dict[str, Any]:
        """The first output after an input, as a client that counts them reads it."""
        await self._wire.send(type="input.append", input={"audio": SECOND})
        delta = await self.expect("response.output.delta")
        assert delta["response_id"]
        return delta

    async def close(self) -> None:
        await self._wire.send(type="session.close", reason="user_stop")
        while (event := await self.event())["type"] != "session.closed":
            pass
        assert event["reason"] == "client_closed"
        assert await self._wire.close_code_after_all() == 1000


async def test_a_strict_client_listens_and_is_answered(stack: Stack) -> None:
    stack.edge()
    stack.worker(engine_options='{"cycle_units": 4, "speak_ms": 10, "listen_ms": 10}')
    for mode in ("video", "audio"):
        async with open_path(stack.ws_url, f"/v1/realtime?mode={mode}") as wire:
            client = StrictClient(wire)
            sid = await client.begin()
            deltas = [await client.second() for _ in range(8)]
            assert {delta["session_id"] for delta in deltas} == {sid}
            assert {delta["kind"] for delta in deltas} == {"listen", "text", "audio"}
            await client.close()
    async with connect_realtime(stack.ws_url, mode="audio", version=2) as session:
        await session.wait_for_turn()
        created = await session.update("Be brief.", config={"force_listen_count": 0})
        assert isinstance(created, SessionCreatedV2)
        kinds = set()
        events = session.events()
        while kinds != {Spoken, Listen}:
            await session.append(np.zeros(INPUT_RATE, np.float32))
            kinds.add(type(await anext(events)))
        assert (await session.stop()).reason == "client_closed"


async def test_the_page_of_the_demo_shares_the_recording_by_the_id_of_its_session(
    stack: Stack,
) -> None:
    """The page knows `session_id` only. A request through a proxy is not that of an administrator."""
    stack.edge()
    stack.recorder(recorder_settle_s=0.1)
    stack.worker(engine_options='{"cycle_units": 4, "speak_ms": 10, "listen_ms": 10}')
    async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
        client = StrictClient(wire)
        sid = await client.begin()
        await client.second()
        await client.close()
    proxy = {"X-Forwarded-For": "192.0.2.1"}
    base = f"{stack.http_url}/api/sessions"
    async with httpx.AsyncClient(base_url=base, headers=proxy) as http:
        await until(partial(_is_merged, http, sid), within_s=60)
        form = {"file": ("recording.webm", WEBM, "video/webm")}
        assert (await http.post(f"/{sid}/upload-recording", files=form)).status_code == 200
        assert (await http.post(f"/{sid}/comment", json={"comment": "Good."})).status_code == 200
        assert (await http.get(f"/{sid}/comment")).json()["comment"] == "Good."
        session = (await http.get(f"/{sid}")).json()["session_id"]
        assert (await http.get(f"/{session}")).is_client_error


async def _is_merged(http: httpx.AsyncClient, recording: str) -> bool:
    answer = await http.get(f"/{recording}")
    return answer.status_code == 200 and answer.json()["state"] != "recording"
