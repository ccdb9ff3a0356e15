"""Calls over Twilio Media Streams: marks, interruptions, keys and signatures."""

from typing import Any

import orjson
import pybase64
import pytest
from msgspec.structs import replace

from antiphon.edge.access.guards import is_signed, signature_of, signed_urls
from antiphon.edge.errors import Close, explain
from antiphon.edge.protocols.machine import Action, Finish, Forward
from antiphon.edge.protocols.twilio import TwilioDecoder, TwilioMachine
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    StopIn,
    TextIn,
)
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import result
from support.protocol_driver import wires_of
from support.protocol_samples import SETTINGS


def test_the_signature_is_the_one_that_the_documents_compute() -> None:
    """HMAC-SHA1 of the address, as `openssl dgst -sha1 -hmac 12345 -binary | base64` computes it."""
    signature = signature_of("12345", "wss://example.com/twilio/media")
    assert signature == "Ko8aymfVk0cCegaxVKH0ZCvSyf4="
    urls = list(signed_urls("example.com", "/twilio/media", secure=True))
    assert is_signed(signature, "12345", urls)
    assert not is_signed(signature, "12346", urls)
    assert not is_signed(signature, "12345", signed_urls("example.com", "/other", secure=True))
    assert is_signed(signature_of("12345", "wss://example.com/twilio/media/"), "12345", urls)


class Call:
    """A call whose worker has 200 ms chunks."""

    def __init__(self) -> None:
        self.decoder = TwilioDecoder(SETTINGS)
        self.machine = TwilioMachine(lambda: 0.0)

    async def send(self, event: str, **fields: Any) -> list[Action]:
        frame = orjson.dumps({"event": event, "streamSid": "MZ1", **fields}).decode()
        return list(self.machine.receive(await self.decoder.decode(frame)))

    async def start(self, **parameters: str) -> list[Action]:
        media = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        stream = {"streamSid": "MZ1", "mediaFormat": media, "customParameters": parameters}
        await self.send("connected", protocol="Call", version="1.0.0")
        return await self.send("start", sequenceNumber="1", start=stream)

    async def begin(self, **parameters: str) -> None:
        await self.start(**parameters)
        self.machine.granted()
        self.machine.deliver(PreparedOut(input_n=1, prompt_length=1, chunk_ms=200), 0)

    async def hear(self, packets: int) -> list[Action]:
        payload = pybase64.b64encode_as_string(b"\xff" * 160)
        sound = {"track": "inbound", "chunk": "1", "timestamp": "5", "payload": payload}
        return [a for _ in range(packets) for a in await self.send("media", media=sound)]

    def answer(self, n: int, **fields: Any) -> list[dict[str, Any]]:
        unit = replace(result(n), audio=bytes(4 * 4800), **fields)
        return wires_of(self.machine.deliver(unit, 0))


async def test_sound_before_a_worker_is_ready_is_dropped() -> None:
    call = Call()
    (forward,) = await call.start(greeting="Hello.", instructions="Be kind.")
    assert await call.hear(20) == []
    assert call.machine.granted() == []
    assert isinstance(forward, Forward)
    assert isinstance(forward.entry, PrepareIn)
    assert forward.entry.system_prompt == "Be kind."
    assert forward.entry.config.greeting == "Hello."
    call.machine.deliver(PreparedOut(input_n=1, prompt_length=1, chunk_ms=200), 0)
    chunks = [action.entry for action in await call.hear(20) if isinstance(action, Forward)]
    assert [type(chunk) for chunk in chunks] == [ChunkIn, ChunkIn]
    assert [len(chunk.audio) for chunk in chunks] == [6400, 6400]  # type: ignore[union-attr]


async def test_marks_report_what_was_played_of_the_current_answer() -> None:
    call = Call()
    await call.begin()
    media, mark = call.answer(1)
    assert media["event"] == "media"
    assert len(pybase64.b64decode(media["media"]["payload"])) == 1600
    assert mark["mark"]["name"] == "1-200"
    call.answer(2, end_of_turn=True)
    assert await call.send("mark", mark={"name": "1-200"}) == [Forward(PlaybackIn(played_ms=200))]
    assert await call.send("mark", mark={"name": "1-200"}) == []
    call.answer(3)
    assert await call.send("mark", mark={"name": "1-400"}) == []  # of the answer before
    assert await call.send("mark", mark={"name": "2-200"}) == [Forward(PlaybackIn(played_ms=200))]


@pytest.mark.parametrize("over", [False, True], ids=["speaking", "all-sent"])
async def test_an_interruption_clears_what_is_not_played(over: bool) -> None:
    """Also after the last piece of an answer: the caller may still hear it."""
    call = Call()
    await call.begin()
    call.answer(1, end_of_turn=over)
    interrupted = replace(result(2, speak=False), interrupted=True)
    cleared = wires_of(call.machine.deliver(interrupted, 0))
    assert cleared == [{"event": "clear", "streamSid": "MZ1"}]
    assert await call.send("mark", mark={"name": "1-200"}) == []  # Twilio returns what it cleared
    call.answer(3, end_of_turn=True)
    assert call.machine.deliver(result(4, speak=False), 0) == []


async def test_keys_are_told_to_the_model_and_recorded() -> None:
    call = Call()
    await call.begin()
    recorded, told = await call.send("dtmf", dtmf={"track": "inbound_track", "digit": "#"})
    assert recorded == Forward(DiagnosticIn(metrics={"dtmf": "#"}))
    assert isinstance(told, Forward)
    assert isinstance(told.entry, TextIn)
    assert "#" in told.entry.text
    with pytest.raises(InvalidInput):
        await call.send("dtmf", dtmf={"digit": "12"})


async def test_the_call_ends_after_a_goodbye_was_played() -> None:
    call = Call()
    await call.begin()
    call.answer(1, end_of_turn=True, memo={"goodbye": True})
    assert await call.send("mark", mark={"name": "1-200"}) == [Forward(StopIn())]
    assert await call.send("stop") == []


@pytest.mark.parametrize("fields", [{"time_zone": "Mars"}, {"instructions": "a" * 20_001}])
async def test_a_call_that_cannot_begin_ends(fields: dict[str, str]) -> None:
    call = Call()
    with pytest.raises(InvalidInput) as refused:
        await call.start(**fields)
    assert call.machine.report(explain(refused.value)) == [Finish(Close.POLICY, EndReason.ERROR)]


async def test_an_error_of_the_engine_ends_only_a_call_that_has_not_begun() -> None:
    failed = ErrorOut(code="inference_error", message="bad")
    call = Call()
    await call.start()
    call.machine.granted()
    assert call.machine.deliver(failed, 0) == [Finish(Close.INTERNAL, EndReason.ERROR)]
    call = Call()
    await call.begin()
    assert call.machine.deliver(failed, 0) == []
