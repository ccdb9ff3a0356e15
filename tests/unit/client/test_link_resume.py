"""A client resumes after a broken connection, against a real WebSocket server with a script."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from antiphon.client import keepalive, link
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import ServerError, SessionOver, UnreadableMessage
from support.scripted_server import Scripted, Wire, speaking, talking_to

SECOND = np.zeros(16_000, dtype=np.float32)


def _query(wire: Wire) -> dict[str, str]:
    assert wire.socket.request is not None
    query = parse_qs(urlsplit(wire.socket.request.path).query)
    return {name: values[0] for name, values in query.items()}


class Server:
    """Counts connections; each has a separate script."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []

    async def begin(self, wire: Wire) -> None:
        await wire.send("queue_done", seq=1, resume_token="s.one")
        await wire.expect("prepare")
        await wire.send("prepared", seq=2, resume_token="s.one")

    async def resume(self, wire: Wire) -> None:
        last = int(_query(wire)["seq"])
        token = f"s.{len(self.queries)}"
        await wire.send("resumed", seq=last, resume_token=token)

    def count(self, wire: Wire) -> int:
        self.queries.append(_query(wire))
        return len(self.queries)


async def _break(wire: Wire) -> None:
    wire.socket.transport.abort()


async def test_a_broken_connection_is_resumed_transparently() -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await wire.expect("audio_chunk")
            await wire.send("result", seq=3, **speaking("one"))
            await _break(wire)
            return
        await server.resume(wire)
        await wire.send("result", seq=4, **speaking("two"))
        await wire.expect("audio_chunk")
        await wire.send("result", seq=5, **speaking("three"))
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=6)

    async with talking_to(script, resume=True) as session:
        await session.prepare()
        await session.send_audio(SECOND)
        units = session.results()
        assert [(await anext(units)).text for _ in range(2)] == ["one", "two"]
        await session.send_audio(SECOND)
        assert (await anext(units)).text == "three"
        await session.stop()
    first, second = server.queries
    options = {"resume": "1", "capabilities": "1"}
    assert first == options
    assert second == options | {"resume_token": "s.one", "seq": "3", "attempt": "1"}


async def test_it_resumes_repeatedly_and_through_another_edge() -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        number = server.count(wire)
        if number == 1:
            await server.begin(wire)
            await _break(wire)
        elif number == 2:
            await wire.send("error", error="busy", message="busy", code="server_shutdown")
            await wire.socket.close(1013)
        elif number == 3:
            await server.resume(wire)
            await wire.socket.close(1012)
        else:
            await server.resume(wire)
            await wire.send("result", seq=3, **speaking("there"))
            await wire.expect("stop")
            await wire.send("stopped", session_id="s", seq=4)

    async with (
        Scripted(script).running() as scripted,
        connect_duplex(
            scripted.url, resume=True, other_edges=["ws://127.0.0.1:1", scripted.url]
        ) as session,
    ):
        await session.prepare()
        assert (await anext(session.results())).text == "there"
        await session.stop()
    assert [query.get("resume_token") for query in server.queries] == [
        None,
        "s.one",
        "s.one",
        "s.3",
    ]


@pytest.mark.parametrize(
    ("code", "reason"), [(1011, "keepalive ping timeout"), (1013, "slow_consumer")]
)
async def test_it_resumes_when_the_edge_heard_nothing_for_a_while(code: int, reason: str) -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await wire.socket.close(code, reason)
            return
        await server.resume(wire)
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=4)

    async with talking_to(script, resume=True) as session, asyncio.timeout(60):
        await session.prepare()
        await session.stop()
    assert len(server.queries) == 2


async def test_a_silent_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side neither answers nor closes the connection."""
    monkeypatch.setattr(keepalive, "_PING_S", 0.1)
    monkeypatch.setattr(keepalive, "_PONG_S", 0.1)
    server, resumed = Server(), asyncio.Event()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            wire.socket.transport.pause_reading()
            await resumed.wait()
            wire.socket.transport.abort()
            return
        resumed.set()
        monkeypatch.setattr(keepalive, "_PONG_S", 60.0)
        await server.resume(wire)
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=4)

    async with talking_to(script, resume=True) as session, asyncio.timeout(60):
        lost = asyncio.Event()
        session.watch_connection(lambda connected: connected or lost.set())
        await session.prepare()
        await lost.wait()
        await session.stop()
    assert len(server.queries) == 2


async def test_an_upload_is_no_silent_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is still in buffers when it has been sent, and the pong comes after it."""
    monkeypatch.setattr(keepalive, "_PING_S", 0.05)
    monkeypatch.setattr(keepalive, "_PONG_S", 0.05)
    received = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.begin()
        wire.socket.transport.pause_reading()
        await asyncio.sleep(1.0)
        wire.socket.transport.resume_reading()
        await wire.expect("audio_chunk")
        received.set()
        await wire.finish()

    async with talking_to(script) as session, asyncio.timeout(60):
        await session.prepare()
        await session._send({"type": "audio_chunk", "audio": "x" * (4 << 20)})
        await received.wait()
        await session.stop()


async def _refuse(wire: Wire, kind: str, code: str) -> None:
    text = f"{kind}: not allowed while the session is active; allowed now: stop"
    await wire.send("error", error=text, message=text, code=code, field="type")


@pytest.mark.parametrize("arrived", [True, False])
async def test_an_unanswered_command_is_sent_again(arrived: bool) -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await wire.send("queue_done", seq=1, resume_token="s.one")
            await wire.expect("prepare")
            await _break(wire)
            return
        await server.resume(wire)
        if arrived:  # the answer was in flight when the link broke
            await wire.send("prepared", seq=2, prompt_length=3)
            await wire.expect("prepare")
            await _refuse(wire, "prepare", "not_ready")
        else:
            await wire.expect("prepare")
            await wire.send("prepared", seq=2, prompt_length=3)
        await wire.expect("audio_chunk")
        await wire.send("result", seq=4, **speaking("well"))
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=5)

    async with talking_to(script, resume=True) as session:
        assert (await session.prepare()).prompt_length == 3
        await session.send_audio(SECOND)
        assert (await anext(session.results())).text == "well"
        await session.stop()


@pytest.mark.parametrize("refused", ["pause", "resume"])
async def test_a_refusal_after_an_answered_repeat_is_raised(refused: str) -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await wire.expect("pause")
            await _break(wire)
            return
        await server.resume(wire)
        await wire.expect("pause")
        await wire.send("paused", seq=3)
        await wire.expect(refused)
        await _refuse(wire, refused, "paused")
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=4)

    async with talking_to(script, resume=True) as session, asyncio.timeout(90):
        await session.prepare()
        await session.pause()
        with pytest.raises(ServerError, match=f"{refused}: not allowed"):
            await (session.pause() if refused == "pause" else session.resume())
        await session.stop()


async def test_the_refusal_of_a_repeat_fails_no_request_after_it() -> None:
    """It arrives after the program has sent its next request."""
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await wire.expect("pause")
            await _break(wire)
            return
        await server.resume(wire)
        await wire.send("paused", seq=3)
        await wire.expect("pause")
        await wire.expect("resume")
        await _refuse(wire, "pause", "paused")
        await wire.send("resumed", seq=4)
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=5)

    async with talking_to(script, resume=True) as session, asyncio.timeout(90):
        await session.prepare()
        await session.pause()
        await session.resume()
        await session.stop()


@pytest.mark.parametrize("raw", ["{", "[]", '{"no": "type"}', b"\1"])
async def test_an_unreadable_answer_to_an_attempt_ends_the_session(raw: str | bytes) -> None:
    server = Server()
    sending = asyncio.Event()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await _break(wire)
            return
        await sending.wait()
        await wire.socket.send(raw)
        await wire.socket.wait_closed()

    async with talking_to(script, resume=True) as session, asyncio.timeout(90):
        broken = asyncio.Event()
        session.watch_connection(lambda _: broken.set())
        await session.prepare()
        await broken.wait()
        sender = asyncio.create_task(session.send_audio(SECOND))
        await asyncio.sleep(0)
        sending.set()
        with pytest.raises(UnreadableMessage):
            await sender
        with pytest.raises(UnreadableMessage):
            await anext(session.results())


async def test_an_error_without_fields_after_a_repeat_is_an_error() -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await wire.send("queue_done", seq=1, resume_token="s.one")
            await wire.expect("prepare")
            await _break(wire)
            return
        await server.resume(wire)
        await wire.expect("prepare")
        await wire.send("error")
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=2)

    async with talking_to(script, resume=True) as session, asyncio.timeout(90):
        with pytest.raises(ServerError):
            await session.prepare()
        await session.stop()


async def test_a_program_that_fails_on_the_news_of_a_break_keeps_the_session() -> None:
    server = Server()
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await _break(wire)
            return
        await server.resume(wire)
        await wire.send("result", seq=3, **speaking("there"))
        await wire.expect("stop")
        await wire.send("stopped", session_id="s", seq=4)

    def fails(connected: bool) -> None:
        raise ZeroDivisionError(connected)

    async with talking_to(script, resume=True) as session, asyncio.timeout(90):
        session.watch_connection(fails)
        await session.prepare()
        assert (await anext(session.results())).text == "there"
        await session.stop()
    assert [repr(error) for error in reported] == [
        "ZeroDivisionError(False)",
        "ZeroDivisionError(True)",
    ]


@pytest.mark.parametrize("code", [4410, 4409, 1008])
async def test_a_session_that_has_ended_is_not_resumed(code: int) -> None:
    server = Server()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            if code == 4410:
                await _break(wire)
                return
        await wire.socket.close(code, "because")

    async with talking_to(script, resume=True) as session:
        await session.prepare()
        with pytest.raises(SessionOver, match="because") as over:
            await anext(session.results())
        assert over.value.close_code == code
        with pytest.raises(SessionOver):
            await session.send_audio(SECOND)


async def test_an_abandoned_attempt_that_takes_over_does_not_end_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Edges that do not know the number of an attempt let an older one win."""
    monkeypatch.setattr(link, "_ATTEMPT_S", 0.2)
    server = Server()

    async def script(wire: Wire) -> None:
        number = server.count(wire)
        if number == 1:
            await server.begin(wire)
            await _break(wire)
        elif number == 2:
            await wire.socket.wait_closed()  # no answer
        elif number == 3:
            await server.resume(wire)
            await wire.socket.close(4409, "replaced")
        elif number == 4:
            await server.resume(wire)
            await wire.send("result", seq=3, **speaking("there"))
            await wire.expect("stop")
            await wire.send("stopped", session_id="s", seq=4)

    async with talking_to(script, resume=True) as session:
        await session.prepare()
        assert (await anext(session.results())).text == "there"
        await session.stop()
    assert [query.get("attempt") for query in server.queries] == [None, "1", "2", "3"]


async def test_retries_end_at_the_time_limit() -> None:
    server = Server()
    gone = asyncio.Event()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await gone.wait()
        await _break(wire)

    async with talking_to(script, resume=True, resume_for_s=0.5) as session:
        await session.prepare()
        gone.set()
        with pytest.raises(SessionOver, match=r"the connection broke.* no edge continues"):
            await anext(session.results())


async def test_an_attempt_without_an_answer_at_the_time_limit_is_disconnected() -> None:
    """Otherwise the edge could resume the session later, and hold its worker without a client."""
    server = Server()
    closed = asyncio.Event()

    async def script(wire: Wire) -> None:
        if server.count(wire) == 1:
            await server.begin(wire)
            await _break(wire)
        else:
            await wire.socket.wait_closed()
            closed.set()

    async with talking_to(script, resume=True, resume_for_s=0.5) as session:
        await session.prepare()
        with pytest.raises(SessionOver):
            await anext(session.results())
        async with asyncio.timeout(90):
            await closed.wait()


async def test_without_resume_a_broken_connection_names_the_remedy() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await _break(wire)

    async with talking_to(script) as session:
        await session.prepare()
        with pytest.raises(SessionOver, match="a client with `resume` continues the session"):
            await anext(session.results())


async def test_without_a_token_the_session_is_not_resumed() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        await wire.expect("prepare")
        await wire.send("prepared")
        await _break(wire)

    async with talking_to(script, resume=True) as session:
        await session.prepare()
        with pytest.raises(SessionOver, match=r"the network failed; connect again$"):
            await anext(session.results())
