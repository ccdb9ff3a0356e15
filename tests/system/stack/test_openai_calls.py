"""Calls by WebRTC with another implementation's client, against real processes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("aiortc", reason="the extra webrtc is not installed")

from antiphon.cli.common import BUNDLED_QUESTION
from antiphon.client.sound import load_wav
from support.agents_page import agents_page, page_server
from support.browser_user import Chromium
from support.call_client import CallClient, calling
from support.chromium import find_chromium
from support.lossy_relay import lossy_relay
from support.ports import free_port
from support.sdp_offers import AUDIO, CHANNEL, OFFER, SESSION
from support.speech import say, share_recognised, share_voiced, transcribe
from support.stack import Stack, new_stack, until

pytestmark = pytest.mark.extended

KEY = "the-key-of-the-calls"
OTHER_KEY = "the-key-of-somebody-else"
SHARE = 0.7
"""Of the words."""

NAME = "What is your name?"
"""The engine answers it by a rule."""
SLOW = '{"slots": 3, "answer_pieces": 20, "speak_ms": 100, "prefill_ms": 0}'
"""An answer is 20 seconds of sound, which take two seconds to make."""

PORTS = 4


def ports() -> str:
    first = free_port()
    return f"{first}-{first + PORTS - 1}"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("calls")) as running:
        running.edge(
            api_keys=f"{KEY},{OTHER_KEY}",
            call_connect_s=60,
            max_body_bytes=10_000,
            webrtc_ports=ports(),
        )
        running.worker(engine_options=SLOW, slots=3)
        yield running


@pytest.fixture
async def free(slow: Stack) -> AsyncIterator[Stack]:
    """All slots and ports are free at the end, so nothing is left of a call."""
    yield slow
    await slow.no_session_left()


def bearer(key: str = KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def post(stack: Stack, body: str | bytes, kind: str = "application/sdp", key: str = KEY) -> Any:
    url = f"{stack.http_url}/v1/realtime/calls"
    return httpx.post(url, content=body, headers={**bearer(key), "Content-Type": kind})


@pytest.mark.speech
async def test_a_question_over_a_bad_network_is_understood(local_stack: Stack) -> None:
    """5 % of the datagrams are lost both ways, and the others come up to 100 ms late."""
    async with (
        lossy_relay(20, 0.1) as relay,
        calling(local_stack.http_url, relay=relay.rewrite) as client,
    ):
        client.microphone.say(say(NAME))
        await client.until("output_audio_buffer.started")
        said = await client.until("response.output_audio_transcript.done")
        await client.until("output_audio_buffer.stopped")
        sound = await client.until_silent()
        item = next(event for event in client.events if event["type"] == "conversation.item.done")
        client.send("conversation.item.retrieve", item_id=item["item"]["id"])
        heard = (await client.until("conversation.item.retrieved"))["item"]
    assert relay.dropped > 10
    assert share_recognised(NAME, heard["content"][0]["transcript"]) > 0.7
    voiced = await asyncio.to_thread(share_voiced, said["transcript"], sound)
    assert voiced > SHARE, transcribe(sound)
    assert "response.output_audio.delta" not in client.types


@pytest.mark.speech
async def test_a_page_with_openais_package_is_answered(local_stack: Stack) -> None:
    """From another origin, with a secret."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/realtime"
    with page_server() as origin:
        edge = local_stack.edge(port=port, api_keys=KEY, allowed_origins=origin)
        async with httpx.AsyncClient(headers=bearer()) as http:
            answer = await http.post(f"{url}/client_secrets", json={})
        async with Chromium(chromium) as browsers, agents_page(browsers, origin) as page:
            call_id = await page.call(f"{url}/calls", answer.json()["value"])
            assert call_id.startswith("rtc_")
            await page.speak(say(NAME))
            said = await page.until("response.output_audio_transcript.done")
            await page.until("output_audio_buffer.stopped")
            sound = await page.until_silent()
            assert page.errors == []
    edge.stop()
    voiced = await asyncio.to_thread(share_voiced, said["transcript"], sound)
    assert voiced > SHARE, transcribe(sound)


async def test_an_answer_is_interrupted_at_once(free: Stack) -> None:
    async with calling(free.http_url, KEY) as client:
        client.send("session.update", session={"type": "realtime"})
        await client.until("session.updated")
        client.send("response.create")
        started = await client.until("output_audio_buffer.started")
        await client.until("response.done")
        client.send("output_audio_buffer.clear")
        cleared = await client.until("output_audio_buffer.cleared")
        assert cleared["response_id"] == started["response_id"]
        cut = await client.until("conversation.item.truncated")
        assert 0 < cut["audio_end_ms"] < 20_000
        await client.until_silent()
        client.send("response.create")
        await client.until("output_audio_buffer.started")


async def test_speech_interrupts_what_is_played(free: Stack) -> None:
    """The answer was made long ago; the user hears it still."""
    async with calling(free.http_url, KEY) as client:
        client.send("response.create")
        await client.until("response.done")
        client.microphone.say(load_wav(BUNDLED_QUESTION))
        await client.until("input_audio_buffer.speech_started")
        await client.until("output_audio_buffer.cleared")
        cut = await client.until("conversation.item.truncated")
        assert cut["audio_end_ms"] < 20_000


async def test_a_call_is_hung_up(free: Stack) -> None:
    async with calling(free.http_url, KEY) as client, httpx.AsyncClient() as http:
        url = f"{free.http_url}/v1/realtime/calls/{client.call_id}/hangup"
        assert (await http.post(url)).status_code == 401
        assert (await http.post(url, headers=bearer(OTHER_KEY))).status_code == 404
        assert (await http.post(url, headers=bearer())).status_code == 200
        async with asyncio.timeout(90):
            await client.closed.wait()
        assert "error" not in client.types
        gone = await http.post(url, headers=bearer())
        assert (gone.status_code, gone.json()["error"]["param"]) == (404, "call_id")


async def test_a_client_that_leaves_frees_its_slot_and_port(free: Stack) -> None:
    for _ in range(PORTS + 1):
        async with calling(free.http_url, KEY):
            pass
        await free.no_session_left()


async def test_two_calls_with_one_secret_have_its_settings(free: Stack) -> None:
    async with httpx.AsyncClient(headers=bearer()) as http:
        session = {"type": "realtime", "instructions": "Be brief."}
        url = f"{free.http_url}/v1/realtime/client_secrets"
        secret = (await http.post(url, json={"session": session})).json()["value"]
    async with calling(free.http_url, secret) as one, calling(free.http_url, secret) as other:
        for client in (one, other):
            assert client.events[0]["session"]["instructions"] == "Be brief."
        assert one.call_id != other.call_id


async def test_the_settings_of_a_form_begin_the_session(free: Stack) -> None:
    client = CallClient()
    session = json.dumps({"type": "realtime", "instructions": "Be kind."})
    parts = {
        "sdp": (None, await client.offer(), "application/sdp"),
        "session": (None, session, "application/json"),
    }
    async with httpx.AsyncClient(headers=bearer()) as http:
        url = f"{free.http_url}/openai/v1/realtime/calls"
        await client.accept((await http.post(url, files=parts)).text)
    created = await client.until("session.created")
    assert created["session"]["instructions"] == "Be kind."
    await client.close()


async def test_clients_that_never_connect_are_forgotten(tmp_path: Path) -> None:
    """They take all ports until then."""
    with new_stack(tmp_path) as stack:
        edge = stack.edge(api_keys=KEY, call_connect_s=2, webrtc_ports=ports())
        for _ in range(PORTS):
            assert post(stack, OFFER).status_code == 201
        full = post(stack, OFFER)
        assert (full.status_code, full.headers["retry-after"]) == (503, "5")

        async def answered() -> bool:
            return bool(post(stack, OFFER).status_code == 201)

        await until(answered)
        assert "not within 2 s" in edge.log


def form(**parts: str) -> tuple[bytes, str]:
    # The header is in the name of a test: a random boundary would differ between processes.
    headers = {"Content-Type": "multipart/form-data; boundary=part"}
    files = {name: (None, value) for name, value in parts.items()}
    request = httpx.Request("POST", "http://x", files=files, headers=headers)
    return request.read(), request.headers["content-type"]


@pytest.mark.parametrize(
    ("body", "kind", "status", "param"),
    [
        ("garbage", "application/sdp", 400, "sdp"),
        (b"v=0\xff", "application/sdp", 400, "sdp"),
        ("", "application/sdp", 400, "sdp"),
        (SESSION + CHANNEL, "application/sdp", 400, "sdp"),
        (SESSION + AUDIO, "application/sdp", 400, "sdp"),
        ("{}", "application/json", 400, "Content-Type"),
        (*form(session="{}"), 400, "sdp"),
        (*form(sdp=OFFER, session="{"), 400, None),
        (*form(sdp=OFFER, session='{"type": "realtime", "voice": "x"}'), 400, "session.voice"),
        (*form(sdp=OFFER, session='{"type": "other"}'), 400, "session.type"),
        ("x" * 300_000, "application/sdp", 413, None),
    ],
)
def test_what_cannot_be_used_is_refused(
    slow: Stack, body: str | bytes, kind: str, status: int, param: str | None
) -> None:
    answer = post(slow, body, kind)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param


def test_a_key_is_needed(slow: Stack) -> None:
    assert post(slow, OFFER, key="another-key-of-the-calls").status_code == 401
