"""The client against a real WebSocket server that follows a script of messages."""

import asyncio
from collections.abc import AsyncIterator
from itertools import chain, repeat

import numpy as np
import pybase64
import pytest

from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import (
    InvalidAudio,
    ServerError,
    SessionOver,
    UnreadableMessage,
)
from antiphon.shared_schemas.audio import PcmFormat, Samples
from antiphon.shared_schemas.wire import MediaBytes, to_frame
from support.scripted_server import SPOKEN, Scripted, Wire, speaking, talking_to


async def collect(session: DuplexSession) -> list[Unit]:
    return [unit async for unit in session.results()]


async def test_a_conversation_sends_pieces_as_whole_seconds_with_their_frames() -> None:
    wires: list[Wire] = []

    async def script(wire: Wire) -> None:
        wires.append(wire)
        await wire.begin()
        for number in range(2):
            await wire.expect("audio_chunk")
            await wire.send("result", is_listen=True, current_time=number * 1000)
        await wire.finish(during_audio=True)

    async def microphone() -> AsyncIterator[Samples]:
        for loudness in (0.25, 0.5, 0.75):
            yield np.full(8000, loudness, np.float32)

    pictures = chain([[b"first"]], repeat([]))
    async with talking_to(script) as session:
        await session.prepare()
        units = session.converse(microphone(), frames=lambda: next(pictures))
        assert [(await anext(units)).is_listen for _ in range(2)] == [True, True]
        await units.aclose()
    _, first, last, *_ = wires[0].received
    sent = [np.frombuffer(pybase64.b64decode(one["audio"]), "<f4") for one in (first, last)]
    assert [len(chunk) for chunk in sent] == [16000, 16000]
    assert [set(chunk) for chunk in sent] == [{0.25, 0.5}, {0.75, 0.0}]
    assert pybase64.b64decode(first["frame_base64_list"][0]) == b"first"
    assert "frame_base64_list" not in last


@pytest.mark.parametrize(("config", "length"), [(None, 3200), ({"chunk_ms": 500}, 8000)])
async def test_chunks_have_the_length_of_the_engine_unless_the_caller_chooses(
    config: dict[str, int] | None, length: int
) -> None:
    wires: list[Wire] = []

    async def script(wire: Wire) -> None:
        wires.append(wire)
        await wire.begin(chunk_ms=200)
        for _ in range(6):
            await wire.expect("audio_chunk")
            await wire.send("result")
        await wire.finish(during_audio=True)

    async def microphone() -> AsyncIterator[Samples]:
        yield np.full(6 * length, 0.25, np.float32)

    async with talking_to(script) as session:
        await session.prepare(config=config)
        units = session.converse(microphone(), frames=lambda: [b"picture"])
        for _ in range(6):
            await anext(units)
        await units.aclose()
    sent = wires[0].received[1:7]
    assert {len(pybase64.b64decode(one["audio"])) // 4 for one in sent} == {length}
    seen = [number for number, one in enumerate(sent) if "frame_base64_list" in one]
    assert seen == list(range(0, 6, 16_000 // length)), "one picture a second"


async def test_silence_follows_the_last_piece() -> None:
    wires: list[Wire] = []

    async def script(wire: Wire) -> None:
        wires.append(wire)
        await wire.begin()
        for _ in range(2):
            await wire.expect("audio_chunk")
        await wire.send("result", is_listen=True, current_time=2000)
        await wire.finish(during_audio=True)

    async def microphone() -> AsyncIterator[Samples]:
        yield np.full(16000, 0.25, np.float32)

    async with talking_to(script) as session:
        await session.prepare(config={"temperature": 0.5})
        units = session.converse(microphone())
        assert (await anext(units)).is_listen
        await units.aclose()
    prepare, _, silence, *_ = wires[0].received
    assert prepare["config"] == {"temperature": 0.5}
    assert not np.frombuffer(pybase64.b64decode(silence["audio"]), "<f4").any()


async def test_a_session_has_one_reader_at_a_time() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        first = asyncio.create_task(collect(session))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task reads the results of this session"):
            await anext(session.results())
        await session.stop()
        assert await first == []


async def test_audio_before_prepare_is_an_error_that_the_results_raise() -> None:
    async def script(wire: Wire) -> None:
        await wire.expect("audio_chunk")
        await wire.send("error", error="not ready", message="not ready", code="not_ready")
        await wire.send("queue_done")
        await wire.finish()

    async with talking_to(script) as session:
        await session.send_audio(np.zeros(16000, np.float32))
        with pytest.raises(ServerError, match="not ready"):
            await anext(session.results())


@pytest.mark.parametrize(
    ("piece", "rate", "words"),
    [
        (np.zeros(8000, np.int16), 16000, "int16, float32 is needed"),
        (np.zeros((8000, 2), np.float32), 16000, "mono with shape"),
        (np.zeros(8000, np.float32), 44100, "44100 Hz"),
    ],
)
async def test_a_wrong_piece_ends_the_conversation_at_once(
    piece: Samples, rate: int, words: str
) -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()

    async def microphone() -> AsyncIterator[Samples]:
        yield piece
        await asyncio.Event().wait()

    async with talking_to(script) as session:
        await session.prepare()
        with pytest.raises(InvalidAudio, match=words):
            await anext(session.converse(microphone(), rate=rate))


async def test_the_wait_for_another_worker_is_reported() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.send("queue_update", ticket_id="7", position=2, queue_length=2)
        await wire.send("queue_update", ticket_id="7", position=0)
        await wire.send("queue_update", ticket_id="7", position=1, stale=True)
        await wire.send("result", **speaking("Hello."))
        await wire.finish()

    async with talking_to(script) as session:
        await session.wait_for_turn()
        await session.prepare()
        results, waits = session.results(), session.waits()
        assert (await anext(results)).text == "Hello."
        reported = [await anext(waits) for _ in range(4)]
        assert [place and place.position for place in reported] == [2, None, 1, None]
        await session.stop()
    assert [place async for place in waits] == []


async def test_prepare_may_precede_the_grant_and_contain_a_voice() -> None:
    async def script(wire: Wire) -> None:
        prepare = await wire.expect("prepare")
        assert pybase64.b64decode(prepare["ref_audio_base64"]) == b"\0" * 12
        assert "tts_ref_audio_base64" not in prepare
        await wire.send("queue_done")
        await wire.send("prepared")
        await wire.finish()

    async with talking_to(script) as session:
        prepared = await session.prepare(ref_audio=np.zeros(3, dtype=np.float32))
        assert prepared.recording_session_id is None


async def test_pause_and_resume_are_answered() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        assert (await wire.expect("pause"))["timeout"] == 5.0
        await wire.send("paused", timeout=5.0)
        await wire.expect("resume")
        await wire.send("resumed")
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        assert (await session.pause(5.0)).timeout == 5.0
        await session.resume()


async def test_an_error_names_code_and_field_and_the_session_continues() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("audio_chunk")
        text = "audio: is no base64"
        await wire.send("error", error=text, message=text, code="invalid_field", field="audio")
        await wire.send("result", is_listen=True)
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        await session.send_audio(np.zeros(1, dtype=np.float32))
        with pytest.raises(ServerError, match="no base64") as caught:
            await anext(session.results())
        assert (caught.value.code, caught.value.field) == ("invalid_field", "audio")
        assert (await anext(session.results())).is_listen


async def test_an_error_answers_the_call_that_waits() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        await wire.expect("prepare")
        text = "ref_audio_path: not found"
        await wire.send("error", error=text, message=text, code="invalid_field")
        await wire.finish()

    async with talking_to(script) as session:
        with pytest.raises(ServerError, match="not found"):
            await session.prepare(ref_audio_path="nowhere.wav")


async def test_a_refusal_before_the_grant_reaches_the_waiting_call() -> None:
    async def script(wire: Wire) -> None:
        text = "the queue is full"
        await wire.send("error", error=text, message=text, code="queue_full", retryable=True)
        await wire.socket.close(1013, "queue_full")

    async with talking_to(script) as session:
        with pytest.raises(ServerError) as caught:
            await session.wait_for_turn()
        assert caught.value.code == "queue_full"
        assert caught.value.retryable is True
        with pytest.raises(ServerError, match="full"):
            await session.prepare()


async def test_a_pause_timeout_ends_the_results_without_an_error() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("pause")
        await wire.send("paused", timeout=1.0)
        await wire.send("timeout", reason="paused for 1 s")

    async with talking_to(script) as session:
        await session.prepare()
        await session.pause(1.0)
        assert await collect(session) == []
        assert session.ended_by == "timeout"
        with pytest.raises(SessionOver, match="timeout"):
            await session.resume()


async def test_a_lost_connection_is_reported_to_every_call() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.send("error", error="gone", message="no worker", code="worker_lost")
        await wire.socket.close(1011, "worker_lost")

    async with talking_to(script) as session:
        await session.prepare()
        with pytest.raises(ServerError, match="no worker"):
            await collect(session)
        for _ in range(2):
            with pytest.raises(
                SessionOver, match=r"1011: worker_lost\); last error: no worker"
            ) as over:
                await collect(session)
            assert over.value.close_code == 1011
        with pytest.raises(SessionOver):
            await session.send_audio(SPOKEN)


async def test_unknown_messages_are_ignored() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("weather", sunny=True)
        await wire.begin()
        await wire.send("result", is_listen=True, seq=4, novelty=[1])
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        assert (await anext(session.results())).is_listen


@pytest.mark.parametrize(
    "raw",
    [
        "{",
        "[]",
        "null",
        '{"no": "type"}',
        '{"type": []}',
        '{"type": "result", "is_listen": "perhaps so"}',
        '{"type": "result", "is_listen": false, "audio_data": "AAA="}',
        '{"type": "result", "is_listen": false, "audio_data": {"at": 0, "bytes": 0}}',
        b"\1",
        b"\x02\0\0\0{]",
        to_frame({"type": "result", "audio_data": MediaBytes(bytes(3))}),
        to_frame({"type": "result", "audio_data": MediaBytes(bytes(8))})[:-1],
    ],
)
@pytest.mark.parametrize("resume", [False, True])
async def test_unreadable_messages_are_refused(raw: str | bytes, resume: bool) -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("pause")
        await wire.socket.send(raw)
        await wire.socket.wait_closed()

    async with talking_to(script, resume=resume) as session, asyncio.timeout(90):
        await session.prepare()
        with pytest.raises(UnreadableMessage):
            await session.pause()
        with pytest.raises(UnreadableMessage):
            await collect(session)
        with pytest.raises(UnreadableMessage):
            await session.send_audio(SPOKEN)


async def test_measurements_of_the_client_are_sent() -> None:
    wires: list[Wire] = []

    async def script(wire: Wire) -> None:
        wires.append(wire)
        await wire.begin()
        await wire.expect("client_diagnostic")
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        await session.send_diagnostic({"rtt": np.int64(12), "loss": np.float32(0.5)})
        await session.stop()
    assert wires[0].received[1]["metrics"] == {"rtt": 12, "loss": 0.5}


@pytest.mark.parametrize("binary", [False, True])
async def test_numbers_of_numpy_are_sent_and_others_checked(binary: bool) -> None:
    async def script(wire: Wire) -> None:
        settings = (await wire.begin())["config"]
        assert settings == {"temperature": 0.5, "force_listen_count": 3}
        assert (await wire.expect("playback_ack"))["played_ms"] == 5.0
        assert (await wire.expect("playback_ack"))["played_ms"] == 1.5
        await wire.finish()

    async with talking_to(script, binary=binary) as session:
        config = {"temperature": np.float32(0.5), "force_listen_count": np.int64(3)}
        await session.prepare(config=config)
        await session.playback_ack(np.float64(5))
        await session.playback_ack(np.float32(1.5))  # type: ignore[arg-type]
        for value, error in (("x", TypeError), (float("nan"), ValueError), (-5, ValueError)):
            with pytest.raises(error, match="played_ms is"):
                await session.playback_ack(value)  # type: ignore[arg-type]
            with pytest.raises(error, match="timeout_s is"):
                await session.pause(value)  # type: ignore[arg-type]
        await session.stop()


async def test_a_server_without_binary_frames_gets_text() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        chunk = await wire.expect("audio_chunk")
        assert pybase64.b64decode(chunk["audio"]) == SPOKEN.tobytes()
        await wire.send("result", **speaking("Hello."))
        await wire.finish()

    async with talking_to(script, binary=True, pcm=PcmFormat.S16) as session:
        assert not session.binary
        await session.prepare()
        await session.send_audio(SPOKEN)
        np.testing.assert_array_equal((await anext(session.results())).audio, SPOKEN)


async def test_a_named_generator_stops_sending_with_the_next_one_and_with_the_session() -> None:
    """Two microphones are never mixed, and each is closed."""
    closed: list[float] = []

    async def script(wire: Wire) -> None:
        await wire.begin()
        heard = set()
        while (message := await wire.next())["type"] == "audio_chunk":
            loudness = float(np.frombuffer(pybase64.b64decode(message["audio"]), "<f4")[0])
            heard.add(loudness)
            await wire.send("result", text=str(loudness), is_listen=True)
            assert loudness == 0.5 or 0.5 not in heard, "the first microphone still sends"
        await wire.send("stopped", session_id="s")

    async def microphone(loudness: float) -> AsyncIterator[Samples]:
        try:
            while True:
                await asyncio.sleep(0)
                yield np.full(16000, loudness, np.float32)
        finally:
            closed.append(loudness)

    async with asyncio.timeout(60):
        async with talking_to(script) as session:
            await session.prepare()
            first = session.converse(microphone(0.25))
            await anext(first)
            second = session.converse(microphone(0.5))
            async for unit in second:
                if unit.text == "0.5":
                    break
            assert closed == [0.25]
            with pytest.raises(RuntimeError, match="another `converse` of this session has begun"):
                await anext(first)
        assert closed == [0.25, 0.5]
        async for unit in second:  # what arrived before the end
            assert unit.text in ("0.25", "0.5")


async def test_a_second_conversation_while_the_first_reads_is_refused() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("audio_chunk")
        await wire.send("result", text="heard", is_listen=True)
        await wire.finish(during_audio=True)

    async def microphone() -> AsyncIterator[Samples]:
        await asyncio.Event().wait()
        yield SPOKEN

    async with asyncio.timeout(60), talking_to(script) as session:
        await session.prepare()
        reading = asyncio.create_task(anext(session.converse(SPOKEN)))
        await asyncio.sleep(0)
        while not session._is_read:
            await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="another task reads"):
            await anext(session.converse(microphone()))
        assert (await reading).text == "heard", "the first one still sends"


@pytest.mark.parametrize("again", [False, True])
async def test_a_cancellation_leaves_no_task_and_no_connection(again: bool) -> None:
    """`again`: while the client waits for the end of the session, as a task group in a timeout does."""
    prepared, stopping, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.expect("stop")
        stopping.set()
        await wire.socket.wait_closed()
        closed.set()

    async with asyncio.timeout(60), Scripted(script).running() as server:

        async def talk() -> None:
            async with connect_duplex(server.url) as session:
                await session.prepare()
                prepared.set()
                if again:
                    await collect(session)

        talking = asyncio.create_task(talk())
        await prepared.wait()
        if again:
            talking.cancel()
        await stopping.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking
        await closed.wait()
        left = {task.get_name() for task in asyncio.all_tasks()}
        assert not left & {"client-reader", "client-keepalive"}


async def test_leaving_the_block_stops_the_session_and_closes() -> None:
    closed = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()
        await wire.socket.wait_closed()
        assert wire.socket.close_code == 1000
        closed.set()

    async with Scripted(script).running() as server:
        async with connect_duplex(server.url, session_id="adx_mine", timing=True) as session:
            await session.prepare()
        await asyncio.wait_for(closed.wait(), 60)
        assert server.path == "/ws/duplex/adx_mine?capabilities=1&timing=1"
