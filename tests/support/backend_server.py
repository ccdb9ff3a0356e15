"""A real server of the `/backend` protocol that answers by a script: WebSocket, health page and close.

It is as strict as the protocol's documents: one session at a time, `session.init` first, then inputs that
fit the mode. What a client does wrong is in `faults`.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pybase64
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples
from support.served_app import served

Event = dict[str, Any]
Reply = list[Event]
Script = Callable[["ScriptedSession", Event], Reply]
"""The events that follow an input. An event's `after_s` is a pause before it; `die` drops the connection."""

TONE = np.full(OUTPUT_RATE // 2, 0.25, dtype=np.float32)
INIT_TOKENS = 60


def text(words: str) -> Event:
    return {"type": "response.output.delta", "kind": "text", "text": words}


def sound(samples: Samples = TONE) -> Event:
    data = pybase64.b64encode_as_string(samples.tobytes())
    return {"type": "response.output.delta", "kind": "audio", "audio": data}


def listen() -> Event:
    return {"type": "response.output.delta", "kind": "listen"}


def counted(event: Event, **chunk: int) -> Event:
    """With the tokens of its input, as the demo's newer servers count them; others are 0."""
    given, made = ("text", "audio", "image", "video"), ("text", "audio")
    usage = {
        "input_token_details": {f"{k}_tokens": chunk.get(f"input_{k}", 0) for k in given},
        "output_token_details": {f"{k}_tokens": chunk.get(f"output_{k}", 0) for k in made},
    }
    return {**event, "chunk_usage": usage, "chunk_index": 0}


def done(words: str = "") -> Event:
    return {"type": "response.done", "text": words, "audio": None, "reason": "turn_end"}


DIE: Event = {"type": "die"}


@dataclass
class ScriptedSession:
    """One session as the server saw it."""

    id: str
    init: Event
    inputs: list[Event] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.inputs)


def cycle(*, is_llama: bool) -> Script:
    """Listens, speaks in the second and third unit, and listens again. A request is answered at once."""

    def script(session: ScriptedSession, given: Event) -> Reply:
        if "messages" in given:
            return [text("Well, "), sound(), text("yes."), done("Well, yes.")]
        if given.get("force_listen") or session.count % 4 in (1, 0):
            return [listen()]
        if is_llama:
            return [text("word "), done("word "), {**sound(), "after_s": 0.02}]
        return [text("word "), sound(), *([listen()] if session.count % 4 == 3 else [])]

    return script


class ScriptedBackend:
    """`script` may be replaced between inputs."""

    def __init__(self, *, is_llama: bool) -> None:
        self.is_llama = is_llama
        self.script: Script = cycle(is_llama=is_llama)
        self.sessions: list[ScriptedSession] = []
        self.closed: list[str] = []
        """Ids of the sessions that were closed by HTTP."""
        self.faults: list[str] = []
        self.address = ""
        self.healthy = True
        self.refusal = ""
        """The reason with which new sessions are closed."""
        self.busy_for = 0
        """How many connections are closed because the last session has not ended."""
        self._active: tuple[ScriptedSession, WebSocket] | None = None
        self._numbers = itertools.count(1)

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/health", self._health)
        app.add_api_route("/sessions/{sid}/close", self._close, methods=["POST"])
        app.add_api_websocket_route("/backend", self._serve)
        return app

    async def _health(self) -> JSONResponse:
        if not self.healthy:
            return JSONResponse({}, 503)
        if self.is_llama:
            return JSONResponse({"status": "ok", "engine": "comni"})
        active = self._active[0].id if self._active else None
        return JSONResponse({"status": "ready", "backend": "pytorch", "active_session_id": active})

    async def _close(self, sid: str) -> JSONResponse:
        if self._active is None or self._active[0].id != sid:
            return JSONResponse({"error": "session not found"}, 404)
        _, ws = self._active
        self._active = None
        self.closed.append(sid)
        await ws.send_json({"type": "session.closed", "session_id": sid, "reason": "client_closed"})
        await ws.close()
        return JSONResponse({"ok": True, "session_id": sid, "closed": True})

    async def _serve(self, ws: WebSocket) -> None:
        await ws.accept()
        session: ScriptedSession | None = None
        try:
            init = await ws.receive_json()
            if init["type"] != "session.init":
                self.faults.append(f"the first message is {init['type']}")
            if self._active is not None:
                self.faults.append("a second session")
                await ws.close()
                return
            if self.busy_for:
                self.busy_for -= 1
                await ws.close()
                return
            if self.refusal:
                await ws.send_json({"type": "session.closed", "reason": self.refusal})
                await ws.close()
                return
            session = ScriptedSession(f"s{next(self._numbers)}", init["payload"])
            self.sessions.append(session)
            self._active = (session, ws)
            await self._send(ws, session, {"type": "session.created", "mode": "m"})
            while True:
                await self._answer(ws, session, await ws.receive_json())
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client has closed, or the HTTP call has
        finally:
            if self._active and self._active[0] is session:
                self._active = None

    async def _answer(self, ws: WebSocket, session: ScriptedSession, message: Event) -> None:
        if message["type"] != "input.append":
            self.faults.append(f"a message {message['type']}")
        given = message["input"]
        if ("messages" in given) != (session.init["mode"] == "turn_based"):
            self.faults.append("an input of the other mode")
        session.inputs.append(given)
        for event in self.script(session, given):
            await asyncio.sleep(event.get("after_s", 0))
            if event["type"] == "die":
                self.healthy = False
                self._active = None
                await ws.close(1011)
                return
            await self._send(ws, session, event)

    async def _send(self, ws: WebSocket, session: ScriptedSession, event: Event) -> None:
        count = session.count
        metrics = {"kv_cache_length": INIT_TOKENS + 25 * count, "n_tokens": 2}
        named = {"session_id": session.id, "response_id": f"{session.id}_resp_{count}"}
        if not self.is_llama:
            named["response_id"] = "resp_ab12"
            named |= {"input_id": session.inputs[-1].get("input_id")} if session.inputs else {}
        event = {"metrics": metrics, **named, **event}
        event.pop("after_s", None)
        with suppress(RuntimeError):  # the session was closed
            await ws.send_json(event)

    @contextmanager
    def running(self, port: int = 0) -> "Iterator[ScriptedBackend]":
        """Serve on a port of the loopback address until the block ends."""
        with socket.create_server(("127.0.0.1", port)) as listener:
            self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with served(self.app(), listener):
                yield self
            self._active = None
