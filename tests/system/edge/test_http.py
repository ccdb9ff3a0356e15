"""The HTTP routes of the edge over a real Redis."""

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from antiphon.broker.client import Broker
from antiphon.shared_schemas.registry import Abilities
from antiphon.shared_schemas.states import SessionKind, WorkerState
from antiphon.shared_schemas.voices import NamedVoice
from support.control_plane import report
from support.edge_harness import RunningEdge, played_worker, prepared_session

FILES = (
    *("/api/sessions/{session_id}/assets/{asset_path}", "/api/sessions/{session_id}/download"),
    "/api/voices/{voice_id}/sample",
    *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/chat/completions"),
    *("/v1/realtime/calls", "/v1/realtime/calls/{call_id}/hangup"),
)
"""Routes whose answer is not JSON, or not always."""


async def test_health(http: httpx.AsyncClient, edge: RunningEdge) -> None:
    answer = (await http.get("/health")).json()
    assert set(answer) == {"status", "timestamp", "edge_id", "redis", "version"}
    assert (answer["status"], answer["redis"]) == ("healthy", "ok")
    assert answer["edge_id"] == edge.edge.id


async def test_status_and_workers_of_an_idle_service(http: httpx.AsyncClient) -> None:
    status = (await http.get("/status")).json()
    assert status["gateway_healthy"] is True
    assert (status["total_workers"], status["queue_length"]) == (0, 0)
    assert status["max_queue_size"] == 1000
    assert (await http.get("/workers")).json() == {"total": 0, "workers": []}


async def test_status_and_workers_of_a_busy_service(
    http: httpx.AsyncClient, edge: RunningEdge, broker: Broker
) -> None:
    async with (
        played_worker(broker, slots=3) as worker,
        prepared_session(edge, worker, "omni_1") as (_, session),
    ):
        status = (await http.get("/status")).json()
        assert (status["total_workers"], status["idle_workers"]) == (1, 1)
        assert (status["slots_total"], status["slots_used"]) == (3, 1)
        [task] = status["running_tasks"]
        assert task["worker_id"] == worker.id
        assert task["request_type"] == "omni_duplex"
        assert task["elapsed_s"] >= 0
        assert task["estimated_remaining_s"] <= 90
        live = (await http.get("/sessions")).json()
        assert live["total"] == 1
        [row] = live["sessions"]
        assert set(row) == {"session_id", "worker_id", "messages_hash", "last_active"}
        assert (row["session_id"], row["worker_id"]) == ("omni_1", worker.id)

        answer = (await http.get("/workers")).json()
        assert answer["total"] == 1
        [row] = answer["workers"]
        assert (row["worker_id"], row["host"], row["port"]) == (worker.id, "127.0.0.1", 9)
        assert (row["gpu_id"], row["status"]) == (-1, "idle")
        assert row["current_session_id"] == session.claim.sid
        assert row["sessions"] == ["omni_1"]
        assert row["slots_used"] == 1


async def test_capabilities_are_those_of_the_live_engines(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    none = (await http.get("/api/capabilities")).json()
    assert (none["model"], none["engines"], none["sees"]) == (None, [], False)
    emma = NamedVoice(id="emma", name="Emma", language="en-GB", gender="female")
    small = Abilities(
        hears=("en",),
        speaks=("en",),
        greets=True,
        interim_transcripts=True,
        chunk_ms=200,
        matches_voices=True,
        voices=(emma,),
    )
    large = Abilities(hears=("en", "zh"), speaks=("zh",), sees=True, clones_voices=True)
    await _reports(broker, "w-1", model="small", abilities=small)
    await _reports(broker, "w-2", model="small", abilities=small)
    seen = (await http.get("/api/capabilities")).json()
    assert (seen["model"], seen["hears"], seen["sees"]) == ("small", ["en"], False)
    assert seen["greets"]
    assert seen["interim_transcripts"]
    assert seen["chunk_ms"] == 200
    assert (seen["matches_voices"], seen["clones_voices"]) == (True, False)
    assert [row["workers"] for row in seen["engines"]] == [2]
    await _reports(broker, "w-3", model="large", abilities=large, state=WorkerState.LOADING)
    both = (await http.get("/api/capabilities")).json()
    assert not both["greets"]
    assert not both["interim_transcripts"]
    assert both["chunk_ms"] == 1000
    assert [voice["id"] for voice in both["voices"]] == ["emma"]  # not known while it loads
    for kind, all_able in ((SessionKind.HALF_DUPLEX, False), (SessionKind.CHAT, True)):
        only = frozenset({kind})
        await _reports(broker, "w-3", model="large", abilities=large, kinds=only)
        found = (await http.get("/api/capabilities")).json()
        assert (found["greets"], bool(found["voices"])) == (all_able, all_able)
    await _reports(broker, "w-3", model="large", abilities=large, state=WorkerState.LOADING)
    assert (both["model"], both["hears"]) == ("large, small", ["en", "zh"])
    assert (both["sees"], both["clones_voices"], both["calls_tools"]) == (True, True, False)
    words = replace(small, sees=True, sees_in_words=True)
    for other, only_words in ((small, True), (large, False)):
        await _reports(broker, "w-1", model="words", abilities=words)
        await _reports(broker, "w-2", model="small", abilities=small)
        await _reports(broker, "w-3", model="large", abilities=other)
        found = (await http.get("/api/capabilities")).json()
        assert (found["sees"], found["sees_in_words"]) == (True, only_words)
    await _reports(broker, "w-1", model="small", abilities=small)
    await _reports(broker, "w-3", model="large", abilities=large, state=WorkerState.ERROR)
    assert (await http.get("/api/capabilities")).json() == seen


async def _reports(broker: Broker, worker: str, **changes: Any) -> None:
    await broker.registry.worker_beat(worker, replace(report(), **changes))


async def test_eta_settings_can_be_read_and_changed(http: httpx.AsyncClient) -> None:
    before = (await http.get("/api/config/eta")).json()
    assert before["config"]["eta_audio_duplex_s"] == 120.0
    assert before["ema_alpha"] == 0.3
    assert before["ema_omni_duplex_s"] is None
    changed = await http.put("/api/config/eta", json={"eta_audio_duplex_s": 30, "ema_alpha": 0.5})
    assert changed.json()["config"]["eta_audio_duplex_s"] == 30.0
    assert (await http.get("/api/config/eta")).json() == changed.json()
    kept = (await http.put("/api/config/eta", json={"eta_chat_s": 7, "eta_turns_s": None})).json()
    assert kept["config"] == {
        "eta_chat_s": 7.0,
        "eta_half_duplex_s": 180.0,
        "eta_audio_duplex_s": 30.0,
        "eta_omni_duplex_s": 90.0,
        "eta_turns_s": 300.0,
        "ema_alpha": 0.5,
    }


async def test_invalid_eta_settings_are_refused(http: httpx.AsyncClient) -> None:
    bodies: tuple[Any, ...] = ({"eta_chat_s": 0}, {"eta_chat_s": "soon"}, {"ema_alpha": 2}, [], "x")
    for body in bodies:
        assert (await http.put("/api/config/eta", json=body)).status_code == 422, body


async def test_the_routes_are_documented(http: httpx.AsyncClient) -> None:
    assert (await http.get("/docs")).status_code == 200
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert set(paths) >= {
        "/health",
        "/status",
        "/workers",
        "/api/queue",
        "/api/queue/{ticket_id}",
        "/api/config/eta",
        "/api/half_duplex/stop",
        "/api/chat",
        "/v1/realtime/schema.json",
    }
    del paths["/v1/realtime/schema.json"]  # its answer is a schema itself
    for path in FILES:
        del paths[path]
    for methods in paths.values():
        for operation in methods.values():
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert "$ref" in schema
            assert operation["description"]


async def test_a_page_asks_why_its_websocket_was_refused(http: httpx.AsyncClient) -> None:
    """A browser names the origin of a page in a POST, and in no GET for the own server."""
    for origin, status in (("http://other.example", 403), (str(http.base_url).rstrip("/"), 426)):
        answer = await http.post("/ws/chat", headers={"Origin": origin})
        assert answer.status_code == status, answer.text


@pytest.mark.edge(api_keys=("a-key-that-is-long-enough",))
async def test_a_websocket_path_without_upgrade_names_the_proxy(edge: RunningEdge) -> None:
    """Without a key too: a browser sends it in a header of the handshake."""
    paths = ("/ws/duplex/adx_1", "/ws/half_duplex/hdx_1", "/ws/chat", "/v1/realtime?mode=audio")
    for version, headers in (
        ("1.0", "Connection: close"),  # as nginx sends it unless it is configured for WebSockets
        ("1.1", "Upgrade: websocket"),
        ("1.1", "Connection: Upgrade"),
    ):
        for path in paths:
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(edge.url).port)
            head = f"GET {path} HTTP/{version}\r\nHost: 127.0.0.1\r\n{headers}\r\n\r\n"
            writer.write(head.encode())
            answer = (await reader.readuntil(b"}")).decode()
            writer.close()
            head, _, body = answer.partition("\r\n\r\n")
            assert head.startswith("HTTP/1.1 426 "), path
            assert "\r\nupgrade: websocket" in head.lower()
            problem = orjson.loads(body)
            assert (problem["code"], problem["retryable"]) == ("upgrade_required", False)
            assert all(word in problem["error"] for word in ("WebSockets", "proxy", "`Connection`"))


async def test_errors_outside_routes_have_the_usual_form(http: httpx.AsyncClient) -> None:
    json = {"Content-Type": "application/json"}
    for method, path, body, status, code in (
        ("GET", "/api/nowhere", b"", 404, "not_found"),
        ("POST", "/status", b"", 405, "method_not_allowed"),
        ("PUT", "/api/config/eta", b"\xff", 400, "invalid_json"),
    ):
        answer = await http.request(method, path, content=body, headers=json)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code)
        assert set(problem) == {"error", "message", "code", "retryable"}
