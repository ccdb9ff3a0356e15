"""A real server with the part of vLLM-Omni's API that the engine `backend` uses, which answers by a script.

It follows vLLM-Omni 0.30.0 and 0.32.0rc1: limits, resume with a new token each time, numbered events, and
refusals have the form and the codes that they have there. What a client does wrong is in `faults`.
"""

import asyncio
import base64
import io
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import soundfile
from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response, StreamingResponse

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16
from support.served_app import served

Message = dict[str, Any]
MODEL = "openbmb/MiniCPM-o-4_5"
TONE = np.full(OUTPUT_RATE // 2, 0.25, dtype=np.float32)
_CLIENT_EVENTS = frozenset(
    {
        "session.update",
        "session.close",
        "session.heartbeat",
        "session.event_ack",
        "input_audio_buffer.append",
        "response.cancel",
        "playback.ack",
    }
)


def listens(response_id: str = "") -> list[Message]:
    """A unit in which the model says nothing."""
    event: Message = {"type": "response.listen", "response": {"status": "listening"}}
    return [event | ({"response_id": response_id} if response_id else {})]


def begins(answer: str) -> list[Message]:
    item = {"id": f"item_{answer}", "role": "assistant"}
    return [
        {"type": "response.created", "response_id": answer, "response": {"id": answer}},
        {"type": "conversation.item.added", "item": item},
        {"type": "response.output_item.added", "response_id": answer, "item": item},
        {"type": "response.content_part.added", "response_id": answer},
        {"type": "response.speak", "response_id": answer, "metadata": {"model_speak": True}},
    ]


def says(answer: str, words: str, sound: Samples = TONE) -> list[Message]:
    """A unit in which the model speaks: its sound, then its text."""
    data = base64.b64encode(to_pcm16(sound).tobytes()).decode()
    return [
        {
            "type": "response.output_audio.delta",
            "response_id": answer,
            "delta": data,
            "format": "pcm16",
            "sample_rate_hz": OUTPUT_RATE,
        },
        {
            "type": "response.output_audio_transcript.delta",
            "response_id": answer,
            "delta": words,
        },
    ]


def ends(answer: str, status: str = "completed") -> list[Message]:
    return [
        {"type": "response.output_audio.done", "response_id": answer},
        {"type": "response.output_audio_transcript.done", "response_id": answer},
        {"type": "response.content_part.done", "response_id": answer},
        {"type": "response.output_item.done", "response_id": answer},
        {
            "type": "response.done",
            "response_id": answer,
            "response": {"id": answer, "status": status},
        },
    ]


def error(code: str, message: str, **more: object) -> Message:
    return {"type": "error", "error": {"code": code, "message": message, **more}}


@dataclass
class OmniScriptedSession:
    """One session as the server saw it. `settings` are those of its `session.update`."""

    id: str
    settings: Message
    token: str
    inputs: list[Message] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    """Numbered events, for a resumed connection."""
    commands: list[Message] = field(default_factory=list)
    acknowledged: int = 0
    samples: int = 0
    units: int = 0
    answer: str = ""
    """The answer that is being given."""
    socket: WebSocket | None = None
    resumed: int = 0


Script = Callable[[OmniScriptedSession, int], list[Message]]
"""The events of a unit (from 1). An event's `after_s` is a pause before it; `raw` is sent as it is."""


def cycle(session: OmniScriptedSession, unit: int) -> list[Message]:
    """Listens, speaks in the second and third unit, and listens again."""
    answer = f"resp_{session.id}_{unit // 4}"
    if session.inputs[-1].get("force_listen") or unit % 4 in (1, 0):
        return listens()
    if unit % 4 == 2:
        return [*begins(answer), *says(answer, "word ")]
    return [*says(answer, "end."), *ends(answer)]


def wav(samples: Samples) -> str:
    file = io.BytesIO()
    soundfile.write(file, to_pcm16(samples), OUTPUT_RATE, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


def chunk(content: str, modality: str = "text", **more: object) -> Message:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}],
        "modality": modality,
        **more,
    }


def answer_well(request: Message) -> list[Message | str]:
    """A whole answer: text, sound if it was asked for, the count of tokens, and the end."""
    sound = [chunk(wav(TONE), "audio")] if "audio" in request["modalities"] else []
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    return [chunk("Well, "), chunk("yes."), *sound, {"choices": [], "usage": usage}, "[DONE]"]


class ScriptedVllmOmni:
    """`script` and `chat` may be replaced at any time."""

    def __init__(self, limit: int = 4) -> None:
        self.limit = limit
        self.script: Script = cycle
        self.chat: Callable[[Message], list[Message | str]] = answer_well
        self.sessions: list[OmniScriptedSession] = []
        """Those that a client opened and used, or still has. Probes are left out."""
        self.opened = 0
        self.requests: list[Message] = []
        self.faults: list[str] = []
        self.address = ""
        self.key = ""
        self.health: Message = {"status": "healthy"}
        self.status = 200
        self.offers_duplex = self.offers_chat = True
        self.level = "model_native_duplex"
        self.chat_status = 200
        self.refusal: Message | None = None
        """What answers `session.update` instead of a session."""
        self.greeting: list[Message] = []
        """Events in front of `session.created`."""
        self.headers_seen: list[dict[str, str]] = []
        self._active: dict[str, OmniScriptedSession] = {}
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def active(self) -> int:
        """Sessions that hold a place."""
        return len(self._active)

    def cut(self) -> None:
        """Drop every connection. The sessions remain, for `session.resume`."""
        self._run(self._cut())

    def forget(self) -> None:
        """Drop every connection and every session, as a restart does."""
        self._run(self._forget())

    def _run(self, work: Any) -> None:
        assert self._loop is not None, "it runs"
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _cut(self) -> None:
        for session in self._active.values():
            if session.socket is not None:
                await session.socket.close(1012)

    async def _forget(self) -> None:
        await self._cut()
        self._active.clear()

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/health", self._health)
        app.add_api_route("/version", self._version)
        app.add_api_route("/v1/models", self._models)
        app.add_api_route("/v1/chat/completions", self._complete, methods=["POST"])
        app.add_api_websocket_route("/v1/realtime", self._serve)
        return app

    async def _health(self) -> JSONResponse:
        return JSONResponse(self.health, self.status)

    async def _version(self) -> JSONResponse:
        return JSONResponse({"version": "0.32.0"})

    def _allows(self, headers: Any) -> bool:
        self.headers_seen.append(dict(headers))
        return not self.key or headers.get("authorization") == f"Bearer {self.key}"

    async def _models(self, request: Request) -> JSONResponse:
        if not self._allows(request.headers):
            return JSONResponse({"error": "Unauthorized"}, 401)
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "owned_by": "vllm"}]})

    async def _complete(self, request: Request) -> Response:
        if not self._allows(request.headers):
            return JSONResponse({"error": "Unauthorized"}, 401)
        if not self.offers_chat:
            detail = "The model does not support Chat Completions API"
            return JSONResponse({"detail": detail}, 404)
        body = await request.json()
        if not body["messages"]:
            return JSONResponse({"error": {"message": "messages are empty", "code": 400}}, 400)
        self.requests.append(body)
        if self.chat_status != 200:
            said = {"error": {"message": "the engine is out of order"}}
            return JSONResponse(said, self.chat_status)
        return StreamingResponse(self._stream(self.chat(body)), media_type="text/event-stream")

    @staticmethod
    async def _stream(events: list[Message | str]) -> AsyncIterator[str]:
        for event in events:
            if event == "cut":
                raise ConnectionAbortedError
            if isinstance(event, dict):
                await asyncio.sleep(event.pop("after_s", 0))
            yield f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"

    async def _serve(self, ws: WebSocket) -> None:
        if not self._allows(ws.headers):
            await ws.close()
            return
        await ws.accept()
        if not self.offers_duplex:
            text = "VAD realtime is not enabled"
            await ws.send_json({"type": "error", "code": "unsupported", "error": text})
            await ws.close(1008)
            return
        if ws.query_params.get("autostart") != "0" or ws.query_params.get("duplex") != "1":
            self.faults.append(f"opened with {ws.query_params}")
        session: OmniScriptedSession | None = None
        with suppress(WebSocketDisconnect, RuntimeError):  # the client has closed, or `cut`
            session = await self._begin(ws, await ws.receive_json())
            while session is not None and session.id in self._active:
                await self._handle(session, await ws.receive_json())
        if session is not None and session.socket is ws:
            session.socket = None

    async def _begin(self, ws: WebSocket, first: Message) -> OmniScriptedSession | None:
        if first["type"] == "session.resume":
            return await self._resume(ws, first)
        if first["type"] != "session.update":
            self.faults.append(f"the first message is {first['type']}")
        refusal = self.refusal
        if len(self._active) >= self.limit:
            text = f"duplex_session_capacity_exhausted: limit={self.limit}"
            refusal = error("resource_exhausted", text, retryable=True)
        if refusal is not None:
            await ws.send_json(refusal)
            await ws.close()
            return None
        number = next(self._numbers)
        session = OmniScriptedSession(f"sess_{number}", first["session"], f"token{number}")
        session.socket = ws
        self.opened += 1
        self._active[session.id] = session
        created = {"type": "session.created", "session": self._described(session)}
        created |= {"attachment_generation": 1, "resume_token": session.token}
        for event in [*self.greeting, created]:
            await ws.send_json(event)
        return session

    def _described(self, session: OmniScriptedSession) -> Message:
        capabilities = {
            "implementation_level": self.level,
            "supports_session_resume": True,
            "supports_playback_ack": True,
            "supports_barge_in": True,
            "supports_multi_session": self.limit > 1,
            "chunk_period_ms": 1000,
        }
        return {"id": session.id, "model": MODEL, "capabilities": capabilities}

    async def _resume(self, ws: WebSocket, asked: Message) -> OmniScriptedSession | None:
        session = self._active.get(asked["session_id"])
        if session is None:
            await ws.send_json(error("session_resume_expired", "Unknown or expired session"))
            await ws.close()
            return None
        if asked["resume_token"] != session.token:
            self.faults.append("a wrong resume token")
            await ws.send_json(error("invalid_resume_token", "Invalid resume token"))
            await ws.close()
            return None
        session.resumed += 1
        session.token, session.socket = f"{session.token}'", ws
        resumed = {"type": "session.resumed", "session": self._described(session)}
        await ws.send_json(resumed | {"session_id": session.id, "resume_token": session.token})
        newest = asked["last_received_server_event_seq"]
        for event in session.sent:
            if event["server_event_seq"] > newest:
                await ws.send_json(event)
        return session

    async def _handle(self, session: OmniScriptedSession, message: Message) -> None:
        name = message["type"]
        if name not in _CLIENT_EVENTS:
            self.faults.append(f"a message {name}")
        session.commands.append(message)
        match name:
            case "session.close":
                del self._active[session.id]
                await self._send(session, {"type": "session.closed", "reason": "client_close"})
                if session.socket is not None:
                    await session.socket.close()
            case "session.heartbeat":
                await self._send(session, {"type": "session.heartbeat_ack"})
            case "session.event_ack":
                session.acknowledged = message["server_event_seq"]
                if session.acknowledged > len(session.sent):
                    self.faults.append("an acknowledgement of an event that was not sent")
            case "response.cancel":
                await self._cancel(session, message)
            case "playback.ack":
                await self._send(session, {"type": "playback.acknowledged", "event": {}})
            case "input_audio_buffer.append":
                await self._append(session, message)

    async def _cancel(self, session: OmniScriptedSession, message: Message) -> None:
        if message["response_id"] != session.answer:
            await self._send(session, error("response_not_active", "Response is not active"))
            return
        for event in ends(session.answer, "cancelled"):
            await self._send(session, event)

    async def _append(self, session: OmniScriptedSession, message: Message) -> None:
        if not session.inputs:
            self.sessions.append(session)
        frames = message.get("video_frames", [])
        if len(frames) > 2 or message.get("max_slice_nums") not in (None, 1):
            await self._send(session, error("invalid_video_frames", "too many frames"))
            return
        data = base64.b64decode(message["audio"], validate=True)
        if message["format"] != "pcm_f32le" or message["sample_rate_hz"] != INPUT_RATE:
            self.faults.append(f"sound as {message['format']}")
        session.inputs.append(message)
        session.samples += len(data) // 4
        while session.samples >= INPUT_RATE * (session.units + 1):
            session.units += 1
            for event in self.script(session, session.units):
                await self._send(session, event)

    async def _send(self, session: OmniScriptedSession, event: Message) -> None:
        event = dict(event)
        await asyncio.sleep(event.pop("after_s", 0))
        if event["type"] == "response.created":
            session.answer = event["response_id"]
        elif event["type"] == "response.done":
            session.answer = ""
        event["server_event_seq"] = len(session.sent) + 1
        session.sent.append(event)
        ws = session.socket
        if ws is not None:
            with suppress(RuntimeError, WebSocketDisconnect):  # the connection is gone
                if "raw" in event:
                    await ws.send_text(event["raw"])
                else:
                    await ws.send_json(event)

    @contextmanager
    def running(
        self, port: int = 0, certificate: tuple[str, str] | None = None
    ) -> "Iterator[ScriptedVllmOmni]":
        """Serve on a port of the loopback address until the block ends; `certificate` and its key for TLS."""
        with socket.create_server(("127.0.0.1", port)) as listener:
            scheme = "https" if certificate else "http"
            self.address = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
            with served(self._started(), listener, log_level="critical", certificate=certificate):
                yield self
            self._active.clear()

    def _started(self) -> FastAPI:
        app = self.app()

        async def note_loop() -> None:
            self._loop = asyncio.get_running_loop()

        app.router.on_startup.append(note_loop)
        return app
