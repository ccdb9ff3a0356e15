"""The machine of OpenAI's Live API: ids of events, times, errors and the end of a session."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.edge.errors import SHUTDOWN, Close, explain
from antiphon.edge.protocols.live import LIVE_LIMIT_S, LiveMachine, LiveTerms
from antiphon.edge.protocols.live_commands import LiveDecoder, LiveLink
from antiphon.edge.protocols.machine import Action, Finish, Forward
from antiphon.shared_schemas.entries import (
    ErrorOut,
    PreparedOut,
    PrepareIn,
    TextAddedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import result
from support.live_samples import APPEND, SOUND, START, event
from support.protocol_driver import wires_of
from support.protocol_samples import SETTINGS


class Line:
    """One connection whose worker has 200 ms chunks. `known`: the voices of the engines."""

    def __init__(self, *, known: frozenset[str] = frozenset()) -> None:
        self.now = 0.0
        link = LiveLink()

        async def voices() -> frozenset[str]:
            return known

        self.decoder = LiveDecoder(SETTINGS, link, voices)
        self.machine = LiveMachine("rec", link, LiveTerms(lambda: self.now, 0.0, 1_800_000_000))

    async def send(self, frame: str) -> list[Action]:
        return list(self.machine.receive(await self.decoder.decode(frame)))

    async def begin(self, frame: str = START) -> list[dict[str, Any]]:
        self.machine.granted()
        await self.send(frame)
        prepared = PreparedOut(input_n=1, prompt_length=1, chunk_ms=200)
        return wires_of(self.machine.deliver(prepared, 0))


async def test_a_waiting_client_receives_nothing_until_its_session_begins() -> None:
    line = Line()
    (forward,) = await line.send(START)
    assert line.machine.granted() == []
    assert isinstance(forward, Forward)
    assert isinstance(forward.entry, PrepareIn)
    (started,) = wires_of(line.machine.deliver(PreparedOut(input_n=1, prompt_length=1), 0))
    assert (started["type"], started["client_event_id"]) == ("session.started", "s")
    assert started["session"]["id"] == "rec"


async def test_transcripts_are_one_text_on_one_time_line() -> None:
    """A new turn begins with a space, and sound that is still played moves the next one."""
    line = Line()
    await line.begin()
    units = [
        replace(result(1), text="Hello", end_of_turn=True, current_time=1000, audio=bytes(96_000)),
        replace(result(2), text="You", current_time=1200, memo={"user": "Hi."}),
        replace(result(3), text=" again", current_time=1400),
    ]
    sent = [wire for unit in units for wire in wires_of(line.machine.deliver(unit, 0))]
    said = [wire for wire in sent if wire["type"] == "session.output_transcript.delta"]
    assert "".join(wire["delta"] for wire in said) == "Hello You again"
    assert (said[0]["start_ms"], said[0]["end_ms"], said[1]["start_ms"]) == (1000, 2000, 2000)
    (text,) = [wire for wire in sent if wire["type"] == "session.input_transcript.delta"]
    assert (text["delta"], text["start_ms"], text["end_ms"]) == (
        "Hi.",
        1200 - 3 * 70,
        1200,
    )
    assert len({wire["event_id"] for wire in sent if "event_id" in wire}) == 4


async def test_the_transcript_of_a_long_unit_comes_in_two_halves() -> None:
    """Pipecat ends a turn after 0.8 s without a fragment."""
    line = Line()
    await line.begin()
    unit = replace(
        result(1), text="It is  half past\nfour.", current_time=1000, audio=bytes(96_000)
    )
    deadlines = line.machine.deadlines()
    next(deadlines)
    said = wires_of(line.machine.deliver(unit, 0))
    while line.now < 0.7:
        deadline = next(deadlines)
        line.now = deadline.at
        said += [{**wire, "at": line.now} for wire in wires_of(deadline.act())]
    first, sound, second = said
    assert (first["delta"], second["delta"]) == ("It is  half", " past\nfour.")
    assert sound["type"] == "session.output_audio.delta"
    assert (first["end_ms"], second["start_ms"], second["end_ms"]) == (1500, 1500, 2000)
    assert second["at"] == pytest.approx(0.5)


async def test_the_next_entry_takes_the_rest_of_a_transcript_with_it() -> None:
    line = Line()
    await line.begin()
    units = [
        replace(result(n), text=text, current_time=1000 * n, audio=bytes(96_000))
        for n, text in enumerate(["One two", " three four five", " six"], 1)
    ]
    sent = [wire for unit in units for wire in wires_of(line.machine.deliver(unit, 0))]
    said = [wire["delta"] for wire in sent if wire["type"] == "session.output_transcript.delta"]
    assert said == ["One", " two", " three four", " five", " six"]


async def test_a_transcript_has_the_time_of_its_speech() -> None:
    line = Line()
    await line.begin()
    said = [("Hi.", 5000, [900, 600]), ("You.", 6000, [3000.0, 100.0]), ("Go.", 6200, "soon")]
    units = [
        replace(result(1, speak=False), current_time=at, memo={"user": text, "spoken_ms": times})
        for text, at, times in said
    ]
    transcribed = [wire for unit in units for wire in wires_of(line.machine.deliver(unit, 0))]
    times = [(wire["start_ms"], wire["end_ms"]) for wire in transcribed if "delta" in wire]
    assert times == [(4100, 4400), (4400, 5900), (5990, 6200)]


async def test_the_answer_to_a_text_has_its_event_id_once() -> None:
    line = Line()
    await line.begin()
    await line.send(APPEND)
    again = APPEND.replace('"c"', '"d"')
    await line.send(again)
    (first,) = wires_of(line.machine.deliver(TextAddedOut(text_n=2), 0))
    assert (first["type"], first["client_event_id"]) == ("session.commentary.appended", "c")
    assert line.machine.deliver(TextAddedOut(text_n=2), 0) == []
    refused = ErrorOut(input_n=3, code="invalid_field", message="no texts", field="type")
    (error,) = wires_of(line.machine.deliver(refused, 0))
    assert error["error"]["client_event_id"] == "d"
    assert error["error"]["type"] == "invalid_request_error"


async def test_an_error_has_the_event_id_of_its_own_message_only() -> None:
    line = Line()
    await line.begin()
    await line.send(event("session.input_audio.mute", event_id="m"))
    (failed,) = wires_of(line.machine.deliver(ErrorOut(code="inference_error", message="bad"), 0))
    assert "client_event_id" not in failed["error"]
    assert failed["error"]["type"] == "server_error"


async def test_a_message_after_the_close_names_no_later_event() -> None:
    line = Line()
    await line.begin()
    await line.send(event("session.close"))
    await line.send(event("session.input_audio.mute", event_id="m"))
    info, *_ = wires_of(line.machine.deliver(TimeoutOut(reason="late"), 0))
    assert "client_event_id" not in info


@pytest.mark.parametrize(
    ("voice", "chosen"), [("marin", ""), ("bella", "bella"), ({"id": "bella"}, "bella")]
)
async def test_stock_voices_are_the_default(voice: Any, chosen: str) -> None:
    line = Line(known=frozenset({"bella"}))
    session = {"model": "m", "audio": {"output": {"voice": voice}}}
    command = await line.decoder.decode(event("session.start", session=session))
    assert command.prepare.config.voice == chosen  # type: ignore[union-attr]


async def test_a_voice_that_no_engine_has_is_refused_by_the_name_of_the_api() -> None:
    line = Line()
    line.machine.granted()
    await line.send(START)
    refused = ErrorOut(
        input_n=1, code="invalid_field", message="config.voice: none", field="config.voice"
    )
    (failed,) = wires_of(line.machine.deliver(refused, 0))
    field = "session.audio.output.voice"
    assert (failed["error"]["param"], failed["error"]["message"]) == (field, f"{field}: none")


@pytest.mark.parametrize(("store", "record"), [(None, True), (True, True), (False, False)])
async def test_what_is_not_stored_is_not_recorded(store: bool | None, record: bool) -> None:
    session = {"model": "m", "store": store}
    command = await Line().decoder.decode(event("session.start", session=session))
    assert command.prepare.config.record is record  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["responses", "decisions", 7, None])
async def test_other_delegations_are_refused_with_the_remedy(kind: Any) -> None:
    session = {"model": "m", "delegation": {"type": kind}}
    with pytest.raises(InvalidInput, match="use `client`") as refused:
        await Line().send(event("session.start", session=session))
    assert refused.value.field == "session.delegation.type"


async def test_sound_that_is_refused_again_and_again_is_reported_once() -> None:
    line = Line()
    await line.begin()
    refused = InvalidInput("too much", field="type", code=ErrorCode.INPUT_BACKPRESSURE)
    errors = []
    for _ in range(10):
        await line.send(SOUND)
        errors += wires_of(line.machine.report(explain(refused)))
    assert [each["type"] for each in errors] == ["error"]
    for _ in range(2):
        await line.send(event("session.input_audio.mute"))
        errors += wires_of(line.machine.report(explain(refused)))
    assert len(errors) == 3


async def test_the_limit_is_announced_and_then_ends_the_session() -> None:
    line = Line()
    await line.begin()
    deadlines = iter(line.machine.deadlines())
    actions: list[Action] = []
    while not any(isinstance(action, Finish) for action in actions):
        deadline = next(deadlines)
        line.now = max(deadline.at, line.now + 20.0)
        actions += deadline.act()
    wires = wires_of(actions)
    assert [w["type"] for w in wires] == ["info", "session.closed"]
    assert wires[1]["reason"] == "expired"
    assert actions[-1] == Finish(Close.NORMAL, EndReason.PAUSE_TIMEOUT)
    assert line.now >= LIVE_LIMIT_S


async def test_a_shutdown_is_an_error_and_the_end() -> None:
    line = Line()
    await line.begin()
    error, closed = wires_of(line.machine.report(SHUTDOWN))
    assert error["error"]["code"] == "server_shutdown"
    assert (closed["type"], closed["reason"]) == ("session.closed", "connection_lost")
    lost = line.machine.ended(EndReason.WORKER_LOST)
    assert [w["type"] for w in wires_of(lost)] == ["error", "session.closed"]
    assert lost[-1] == Finish(Close.TRY_LATER, EndReason.WORKER_LOST)
