"""Messages that no parser can use and sound that is none, on the sockets of a running edge."""

import base64
from typing import Any

import httpx
import orjson
import structlog

from support.edge_harness import RunningEdge, base64_audio
from support.raw_client import Wire

UNUSABLE = {
    "1e309": '{"type":"stop","a":[1e309]}',
    "400 digits": '{"type":' + "1" * 400 + "}",
    "half a pair": '{"type":"stop","a":"\\ud800"}',
    "too deep": '{"type":"stop","a":' + "[" * 1100 + "]" * 1100 + "}",
    "far too deep": "[" * 40_000 + "]" * 40_000,
}
SOCKETS = ("/ws/duplex/adx_1", "/ws/half_duplex/hd_1", "/v1/realtime?mode=audio", "/ws/chat")
TEXT = b"The quick brown fox jumps over the lazy dog, again and again. " * 400
NO_SOUND = {
    "text": base64.b64encode(TEXT[:16_000]).decode(),
    "digits": base64.b64encode(b"0123456789012345" * 1000).decode(),
    "16-bit numbers": base64_audio(16_000, 20_000.0),
    "minus nine": base64_audio(16_000, -9.0),
}


async def _error(client: Wire) -> dict[str, Any]:
    """The next error, in the form of the duplex protocol."""
    while (message := await client.message())["type"] != "error":
        pass
    error = message["error"]
    return error if isinstance(error, dict) else message


async def test_f14_json_that_cannot_be_used_ends_no_session(edge: RunningEdge) -> None:
    codes = {"invalid_field", "too_complex", "invalid_payload"}
    with structlog.testing.capture_logs() as logs:
        for path in SOCKETS:
            async with edge.open(path) as client:
                if path == "/ws/chat":
                    await client.socket.send('{"messages":[{"role":"user","content":"Hello."}]}')
                for name, text in UNUSABLE.items():
                    await client.socket.send(text)
                    error = await _error(client)
                    assert error["code"] in codes, (path, name, error)
                await client.socket.send("no JSON")
                assert await client.close_code_after_all() == 1003, path
    assert {line["log_level"] for line in logs} <= {"debug", "info"}


REFUSED = {
    "a voice that is none": ("/ws/duplex/adx_1", {"type": "prepare", "ref_audio_base64": "AAAA"}),
    "a setting of no session": ("/ws/duplex/adx_2", {"type": "prepare", "config": {"top_k": -1}}),
    "sound before prepare": ("/ws/duplex/adx_3", {"type": "audio_chunk", "audio": "AAAA"}),
    "a threshold above 1": (
        "/ws/half_duplex/hd_1",
        {"type": "prepare", "config": {"vad": {"threshold": 7}}},
    ),
    "settings of no realtime session": (
        "/v1/realtime?mode=audio",
        {"type": "session.update", "session": {"instructions": 7}},
    ),
    "a role of no chat": ("/ws/chat", {"messages": [{"role": "robot", "content": "Hello."}]}),
}


async def test_refused_input_is_counted_and_nothing_warns_of_it(
    edge: RunningEdge, http: httpx.AsyncClient
) -> None:
    counted = 0.0
    with structlog.testing.capture_logs() as logs:
        for name, (path, message) in REFUSED.items():
            async with edge.open(path) as client:
                await client.socket.send(orjson.dumps(message).decode())
                await _error(client)
            if path == "/ws/chat":
                assert (await http.post("/api/chat", json=message)).status_code == 422
            before, counted = counted, _counted(edge)
            assert counted > before, name
    assert {line["log_level"] for line in logs} <= {"debug", "info"}


def _counted(edge: RunningEdge) -> float:
    metrics = edge.edge.metrics
    counted: list[float] = [
        sample.value
        for counter in (metrics.refused_input, metrics.rejected)
        for family in counter.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    ]
    return sum(counted)


async def test_f14_a_chat_request_that_cannot_be_used_is_refused(http: httpx.AsyncClient) -> None:
    for name, text in UNUSABLE.items():
        answer = await http.post("/api/chat", content=text)
        assert answer.status_code == 422, name
        assert answer.json()["code"] in {"invalid_field", "too_complex"}, name


async def test_f15_other_data_is_not_taken_for_sound(http: httpx.AsyncClient) -> None:
    for name, data in NO_SOUND.items():
        voice = {"name": "text", "audio_base64": data}
        upload = await http.post("/api/assets/ref_audio", json=voice)
        assert (upload.status_code, upload.json()["code"]) == (400, "invalid_field"), name
        assert upload.json()["field"] == "audio_base64"
        text = "is not float32 audio: use values between -1 and 1"
        assert text in upload.json()["message"], name


async def test_an_unknown_form_of_sound_is_an_error_without_a_traceback(
    edge: RunningEdge,
) -> None:
    with structlog.testing.capture_logs() as logs:
        for path in SOCKETS:
            async with edge.open(f"{path}{'&' if '?' in path else '?'}pcm=zz") as client:
                if not path.startswith("/v1/realtime"):
                    assert (await _error(client))["field"] == "pcm"
                assert await client.close_code_after_all() == 1008, path
    assert {line["log_level"] for line in logs} <= {"debug", "info"}
