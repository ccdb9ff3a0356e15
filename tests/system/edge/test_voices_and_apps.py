"""Enabled apps, presets and voices, with a real Redis and two edges."""

import io
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pybase64
import pytest
import soundfile

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import ChatIn, PrepareIn
from support.edge_harness import (
    PlayedWorker,
    RunningEdge,
    base64_audio,
    played_worker,
    prepared_session,
    running_edge,
)

VOICES = "/api/assets/ref_audio"


@pytest.fixture
async def other(settings: BrokerSettings) -> AsyncIterator[RunningEdge]:
    async with running_edge(settings) as running:
        yield running


def wav(seconds: float = 1.0, rate: int = 16_000, channels: int = 1, **options: Any) -> str:
    tone = 0.5 * np.sin(np.arange(int(seconds * rate)) * 2 * np.pi * 440 / rate)
    buffer = io.BytesIO()
    buffer.name = "voice.wav"
    soundfile.write(buffer, np.stack([tone] * channels, axis=1), rate, **options)
    return pybase64.b64encode_as_string(buffer.getvalue())


async def upload(http: httpx.AsyncClient, audio: str, name: str = "Anna") -> httpx.Response:
    return await http.post(VOICES, json={"name": name, "audio_base64": audio})


def floats(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.frombuffer(pybase64.b64decode(text), "<f4")


async def test_defaults(http: httpx.AsyncClient, settings: BrokerSettings) -> None:
    assert (await http.get("/api/frontend_defaults")).json() == {"playback_delay_ms": 200}
    voice = (await http.get("/api/default_ref_audio")).json()
    assert set(voice) == {"name", "duration", "sample_rate", "samples", "base64"}
    assert (voice["name"], voice["sample_rate"]) == ("english.wav", 16_000)
    assert voice["samples"] == len(floats(voice["base64"])) > 32_000
    assert voice["duration"] == pytest.approx(voice["samples"] / 16_000, abs=0.06)
    async with (
        running_edge(settings, default_lang="zh", playback_delay_ms=80, default_voice="no") as edge,
        edge.http() as client,
    ):
        defaults = {"playback_delay_ms": 80, "default_lang": "zh"}
        assert (await client.get("/api/frontend_defaults")).json() == defaults
        missing = await client.get("/api/default_ref_audio")
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_presets(http: httpx.AsyncClient) -> None:
    pages = (await http.get("/api/presets")).json()
    assert set(pages) == {"turnbased", "half_duplex_audio", "omni", "audio_duplex"}
    for page, presets in pages.items():
        assert len(presets) >= 4
        assert {"en", "zh"} == {preset["lang"] for preset in presets}
        assert [preset["order"] for preset in presets] == sorted(p["order"] for p in presets)
        assert len({preset["id"] for preset in presets}) == len(presets)
        for preset in presets:
            if page in ("omni", "audio_duplex"):
                assert preset["system_prompt"]
                assert "system_content" not in preset
                assert preset["ref_audio"]["data"] is None
            else:
                assert "ref_audio" not in preset
                assert any(item["type"] == "text" for item in preset["system_content"])


async def test_every_preset_has_its_sounds(http: httpx.AsyncClient) -> None:
    for page, presets in (await http.get("/api/presets")).json().items():
        for preset in presets:
            answer = await http.get(f"/api/presets/{page}/{preset['id']}/audio")
            sounds = answer.json()
            if "ref_audio" in preset:
                assert set(sounds) == {"ref_audio"}
                assert sounds["ref_audio"]["name"] == preset["ref_audio"]["name"]
                assert sounds["ref_audio"]["duration"] == preset["ref_audio"]["duration"]
                assert len(floats(sounds["ref_audio"]["data"])) > 32_000
            else:
                voices = [i for i in preset["system_content"] if i["type"] == "audio"]
                assert len(sounds["system_content_audio"]) == len(voices)


async def test_presets_that_do_not_exist(http: httpx.AsyncClient) -> None:
    for path in ("omni/none", "none/assistant_en", "..%2f..%2fetc/passwd"):
        assert (await http.get(f"/api/presets/{path}/audio")).status_code == 404, path


async def test_an_invalid_preset_is_skipped(settings: BrokerSettings, tmp_path: Path) -> None:
    folder = tmp_path / "presets" / "omni"
    folder.mkdir(parents=True)
    (folder / "good.yaml").write_text("id: good\nname: Good\nsystem_prompt: Be good.\n")
    (folder / "broken.yaml").write_text("id: [\n")
    (folder / "outside.yaml").write_text("id: x\nname: X\nref_audio_path: ../../secret.wav\n")
    (folder / "unknown.yaml").write_text("id: y\nname: Y\nsystem_promt: typo\n")
    (tmp_path / "ref_audio").mkdir()
    (tmp_path / "ref_audio" / "text.wav").write_text("no sound")
    async with running_edge(settings, assets_dir=tmp_path) as edge, edge.http() as client:
        [preset] = (await client.get("/api/presets")).json()["omni"]
        assert (preset["id"], preset["order"]) == ("good", 999)
        assert (await client.get(VOICES)).json() == {"total": 0, "ref_audios": []}


async def test_bundled_voices_are_listed_and_cannot_be_deleted(http: httpx.AsyncClient) -> None:
    rows = (await http.get(VOICES)).json()["ref_audios"]
    assert [row["id"] for row in rows] == ["chinese", "english", "english_female"]
    assert all(row["source_type"] == "shipped" for row in rows)
    assert (await http.get(f"{VOICES}/english")).json()["samples"] > 32_000
    refused = await http.delete(f"{VOICES}/english")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_samples_of_named_voices(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/voices/emma/sample")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
    assert answer.headers["cache-control"] == "private, max-age=86400"
    assert soundfile.info(io.BytesIO(answer.content)).format == "MP3"
    for unknown in ("nobody", "..%2Fref_audio%2Fenglish", "emma.mp3"):
        refused = await http.get(f"/api/voices/{unknown}/sample")
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found"), unknown


async def test_an_uploaded_voice_is_available_on_every_edge(
    http: httpx.AsyncClient, other: RunningEdge
) -> None:
    answer = await upload(http, wav(2.0, 48_000, 2, subtype="PCM_24"), " Anna's voice ")
    made = answer.json()
    assert (answer.status_code, made["success"], made["name"]) == (200, True, "Anna's voice")
    assert len(made["id"]) == 32
    async with other.http() as second:
        listed = (await second.get(VOICES)).json()
        row = listed["ref_audios"][-1]
        assert listed["total"] == len(listed["ref_audios"]) == 4
        assert (row["id"], row["source_type"], row["duration_ms"]) == (made["id"], "upload", 2000)
        assert row["path"] == made["path"] == f"uploaded:{made['id']}"
        sound = (await second.get(f"{VOICES}/{made['id']}")).json()
        assert (sound["name"], sound["samples"]) == ("Anna's voice", 32_000)
        assert np.abs(floats(sound["base64"])).max() == pytest.approx(0.5, abs=0.05)
        assert (await second.delete(f"{VOICES}/{made['id']}")).json()["success"]
    for call in (http.get, http.delete):
        gone = await call(f"{VOICES}/{made['id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "not_found")


async def test_upload_of_raw_samples(http: httpx.AsyncClient) -> None:
    made = (await upload(http, base64_audio(16_000, 0.25))).json()
    sound = (await http.get(f"{VOICES}/{made['id']}")).json()
    assert floats(sound["base64"]) == pytest.approx(0.25, abs=1e-4)


HIDDEN = (
    " ",
    "\xa0\u3000",
    "\u202eannA",
    "An\u200bna",
    "An\x85na",
    "An\u2028na",
    "A" + "\u0301" * 40,
)
"""Names of which a reader sees nothing, or something else."""


async def test_invalid_names(http: httpx.AsyncClient) -> None:
    audio = wav()
    for name in ("", "<b>x</b>", "a\nb", "x" * 81, None, 5, *HIDDEN):
        answer = await http.post(VOICES, json={"name": name, "audio_base64": audio})
        assert answer.status_code == 422, name


@pytest.mark.edge(max_voices=2)
async def test_the_number_of_voices_is_limited(edge: RunningEdge) -> None:
    async with edge.http() as client:
        for expected in (200, 200, 409):
            answer = await upload(client, wav())
            assert answer.status_code == expected
        assert answer.json()["code"] == "voices_full"


async def test_unknown_voice_ids(http: httpx.AsyncClient) -> None:
    unknown = ("..%2f..%2fetc%2fpasswd", "..%5c..", "a%00b", "uploaded:x", "é", "CON", "x" * 65)
    for voice_id, call in product(unknown, (http.get, http.delete)):
        assert (await call(f"{VOICES}/{voice_id}")).status_code in (404, 422), voice_id


async def test_a_conversation_with_a_named_voice(
    http: httpx.AsyncClient, other: RunningEdge, broker: Broker
) -> None:
    path = (await upload(http, wav())).json()["path"]
    async with played_worker(broker, slots=3) as worker:
        for number, (voice, samples) in enumerate(
            {path: 16_000, "assets/ref_audio/english.wav": 80_000}.items()
        ):
            async with other.client(f"adx_{number}") as client:
                session = await worker.claim()
                await client.expect("queue_done")
                await client.send("prepare", ref_audio_path="uploaded:" + "0" * 32)
                await client.expect_error("invalid_field", "ref_audio_path")
                await client.send("prepare", ref_audio_path=voice)
                entry: PrepareIn = await session.expect(PrepareIn)
                assert len(entry.ref_audio) >= 4 * samples


async def test_the_documented_voice(worker: PlayedWorker, edge: RunningEdge) -> None:
    async with edge.client("adx_1") as client:
        session = await worker.claim()
        await client.expect("queue_done")
        path = "assets/ref_audio/ref_minicpm_signature.wav"
        await client.send("prepare", ref_audio_path=path)
        entry: PrepareIn = await session.expect(PrepareIn)
        assert len(entry.ref_audio) > 4 * 32_000


async def test_a_chat_with_an_uploaded_voice(
    http: httpx.AsyncClient, edge: RunningEdge, broker: Broker
) -> None:
    path = (await upload(http, wav())).json()["path"]
    async with played_worker(broker) as worker, edge.open("/ws/chat") as client:
        await client.send(
            "chat",
            messages=[{"role": "user", "content": "Hello"}],
            tts={"enabled": True, "ref_audio_path": path},
        )
        session = await worker.claim()
        entry: ChatIn = await session.expect(ChatIn)
        assert len(entry.ref_audio) == 64_000


async def test_enabled_apps(http: httpx.AsyncClient) -> None:
    menu = (await http.get("/api/apps")).json()["apps"]
    assert [app["app_id"] for app in menu] == [
        *("audio_duplex", "omni", "turnbased", "half_duplex_audio")
    ]
    assert menu[1] == {"app_id": "omni", "name": "Omni Full-Duplex", "route": "/omni"}
    switches = (await http.get("/api/admin/apps")).json()["apps"]
    assert [app["app_id"] for app in switches][-1] == "realtime"
    assert all(app["enabled"] for app in switches)
    answer = await http.put("/api/admin/apps/omni", json={"enabled": False})
    assert answer.json() == {"success": True, "app": {**menu[1], "enabled": False}}
    assert "omni" not in {app["app_id"] for app in (await http.get("/api/apps")).json()["apps"]}
    for wrong, status in (("nothing", 404), ("..%2fomni", 404)):
        answer = await http.put(f"/api/admin/apps/{wrong}", json={"enabled": False})
        assert answer.status_code == status
    assert (await http.put("/api/admin/apps/omni", json={"enabled": "no"})).status_code == 422


SOCKETS = {
    "turnbased": "/ws/chat",
    "half_duplex_audio": "/ws/half_duplex/hd_1",
    "omni": "/ws/duplex/omni_1",
    "audio_duplex": "/ws/duplex/adx_1",
    "realtime": "/v1/realtime?mode=audio",
}


async def test_a_disabled_page_rejects_sockets_on_every_edge(
    http: httpx.AsyncClient,
    edge: RunningEdge,
    other: RunningEdge,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for app, path in SOCKETS.items():
        await http.put(f"/api/admin/apps/{app}", json={"enabled": False})
        for each in (edge, other):
            async with each.open(path) as client:
                error = await client.expect("error")
                text = error["error"]["message"] if app == "realtime" else error["message"]
                assert text.endswith("is currently disabled")
                assert await client.close_code() == 1008
        await http.put(f"/api/admin/apps/{app}", json={"enabled": True})
        async with other.open(path) as client:
            await client.socket.send("no JSON")
            first = await client.message() if app not in ("turnbased", "realtime") else {}
            assert "disabled" not in str(first)
    assert not caplog.records, "a refusal is not logged as a server error"


async def test_disabling_a_page_keeps_other_pages_and_open_sessions(
    http: httpx.AsyncClient, edge: RunningEdge, broker: Broker
) -> None:
    async with (
        played_worker(broker, slots=2) as worker,
        prepared_session(edge, worker, "omni_1") as (client, session),
    ):
        await http.put("/api/admin/apps/omni", json={"enabled": False})
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        await client.expect("result")
        async with edge.client("adx_2") as next_client:
            await worker.claim()
            await next_client.expect("queue_done")


async def test_a_chat_request_to_a_disabled_page(http: httpx.AsyncClient) -> None:
    await http.put("/api/admin/apps/turnbased", json={"enabled": False})
    answer = await http.post("/api/chat", json={"messages": [{"role": "user", "content": "Hi"}]})
    assert answer.status_code == 403
    assert answer.json()["code"] == "page_off"


async def test_cache(http: httpx.AsyncClient, broker: Broker) -> None:
    assert (await http.get("/cache")).json() == {"workers": []}
    async with played_worker(broker) as worker:
        expected = {"workers": [{"worker_id": worker.id, "status": "idle"}]}
        assert (await http.get("/cache")).json() == expected
