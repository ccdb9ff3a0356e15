"""Clients of the other protocols for `support.failover.talk`, and clients that only wait."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pybase64
from websockets.asyncio.client import ClientConnection

from antiphon.shared_schemas.audio import INPUT_RATE
from support.chaos.clients import ChaosSession, Outcome, ReceivedResult
from support.synthetic_speech import ITALY, silence, spoken, units_of

PIECES = 1000
"""Of an answer in a chat: it is longer than any fault."""
_PIECES_OF_A_TURN = 15
_OPENING = "This is simulated."


def answer(pieces: int) -> str:
    """What the engine `simulated` says."""
    return _OPENING + "".join(f" {number}" for number in range(2, pieces + 1))


_SILENCE = pybase64.b64encode_as_string(bytes(4 * INPUT_RATE // 2))


@functools.cache
def _question() -> Sequence[str]:
    """Half seconds of a spoken question, as base64."""
    halves = units_of(np.concatenate([silence(0.5), spoken(ITALY)]), INPUT_RATE // 2)
    return [pybase64.b64encode_as_string(half.astype("<f4").tobytes()) for half in halves]


class AnsweredSession(ChaosSession):
    """A client that gets answers in pieces, each of which is one of its results."""

    pieces = PIECES

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.said = ""
        """The answer so far."""

    def _take_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "chunk":
            self._prepared.set()
            self.said += message["text_delta"]
            self.sent += 1
            self.results.append(ReceivedResult(False, message["text_delta"]))
            if not answer(self.pieces).startswith(self.said):
                self._violation(f"the answer is {self.said[-40:]!r}")
        else:
            super()._take_message(message)


class ChatSession(AnsweredSession):
    """A streamed answer that never ends by itself."""

    @property
    def _path(self) -> str:
        return "/ws/chat"

    async def _send(self, socket: ClientConnection, over: asyncio.Event) -> None:
        if not self._token:
            question = [{"role": "user", "content": "Count."}]
            generation = {"max_new_tokens": PIECES}
            await socket.send(
                orjson.dumps({"messages": question, "generation": generation}).decode()
            )
        await over.wait()
        await self._stop(socket)

    def _take_message(self, message: dict[str, Any]) -> None:
        self.sid = self._token.partition(".")[0]
        super()._take_message(message)
        if message["type"] == "done":
            self._expect("the answer", message["text"], self.said)
            self.recording = message["recording_session_id"]
            self.outcome = Outcome.STOPPED


class HalfDuplexSession(AnsweredSession):
    """Asks aloud again and again. A new question begins when the answer to the last one is complete."""

    pieces = _PIECES_OF_A_TURN

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.turns = 0
        self._answers = False
        self._unsent: list[str] = []

    @property
    def _path(self) -> str:
        return f"/ws/half_duplex/{self.sid}"

    async def _prepare(self, socket: ClientConnection) -> None:
        config = {
            "vad": {"threshold": 0.6},
            "tts": {"enabled": False},
            "generation": {"max_new_tokens": self.pieces},
        }
        await self._message(socket, "prepare", config=config)

    async def _talk(self, socket: ClientConnection, over: asyncio.Event) -> None:
        """A question, and silence until its answer is complete. A resume repeats the question."""
        if not self._answers:
            self._unsent = list(_question())
        while not over.is_set():
            half = self._unsent.pop(0) if self._unsent else _SILENCE
            await self._message(socket, "audio_chunk", audio_base64=half)
            await asyncio.sleep(0.5)

    def _take_message(self, message: dict[str, Any]) -> None:
        super()._take_message(message)
        if message["type"] == "generating":
            self._answers = True
        elif message["type"] == "turn_done":
            self._expect("turn_index", message["turn_index"], self.turns)
            self._expect("text", (message["text"], self.said), (answer(self.pieces),) * 2)
            self.turns += 1
            self.said = ""
            self._answers = False
            self._unsent = list(_question())


class RealtimeSession(ChaosSession):
    """Full duplex over version 2 of the realtime API. The first event of each unit has its number."""

    @property
    def _path(self) -> str:
        return "/v1/realtime?mode=audio&notices=1"

    async def _prepare(self, socket: ClientConnection) -> None:
        config = {"force_listen_count": 1}
        await self._message(socket, "session.init", payload={"config": config})

    async def _append(self, socket: ClientConnection, audio: str) -> None:
        await self._message(socket, "input.append", input={"audio": audio})

    async def _stop(self, socket: ClientConnection) -> None:
        await self._message(socket, "session.close", reason="user_stop")

    def _take_message(self, message: dict[str, Any]) -> None:
        self.sid = self._token.partition(".")[0]
        match message["type"]:
            case "session.queue_done":
                self._granted.set()
            case "session.created":
                self.recording = message["recording_session_id"]
                self._prepared.set()
            case "response.output.delta" if "chunk_index" in message:
                self._expect("chunk_index", message["chunk_index"], len(self.results))
                listens = message["kind"] == "listen"
                self.results.append(ReceivedResult(listens, message.get("text", "")))
            case "session.closed":
                stopped = message["reason"] == "client_closed"
                self.outcome = Outcome.STOPPED if stopped else Outcome.REPORTED
            case "error":
                self.outcome, self.code = Outcome.REPORTED, message["error"]["code"]
            case _:
                pass


class WaitingSession(ChaosSession):
    """A full-duplex client in the queue. `places` are those that were not stale."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.places: list[int] = []
        self._is_stale = False

    @property
    def has_place(self) -> bool:
        """Its first place or a better one, and not stale; or its turn."""
        if self._granted.is_set() or not self.places:
            return self._granted.is_set()
        return not self._is_stale and self.places[-1] <= self.places[0]

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] in ("queued", "queue_update"):
            self._is_stale = bool(message.get("stale"))
            if not self._is_stale:
                self.places.append(message["position"])
        super()._take(message)


OTHERS: tuple[type[ChaosSession], ...] = (ChatSession, HalfDuplexSession, RealtimeSession)
"""Those of the protocols other than `/ws/duplex`."""
