"""The queue of unsent messages: direct, or behind the messages that the client has not read."""

import asyncio

import pytest

from antiphon.broker.service.metrics import MILLISECONDS, HopSeconds
from antiphon.edge.errors import Close, SlowConsumer
from antiphon.edge.session.sender import SendQueue
from antiphon.edge.settings import Unsent
from antiphon.edge.transport.connection import JSON, ServerFrame
from antiphon.shared_schemas.wire import Notice


class Client:
    """A client that reads, or does not read, what was sent."""

    encoding = JSON

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.received: list[ServerFrame] = []
        self.code: Close | None = None

    async def receive(self) -> str:
        raise NotImplementedError

    async def send(self, frame: ServerFrame) -> None:
        await self.reads.wait()
        self.received.append(frame)

    def send_now(self, frame: ServerFrame) -> bool:
        if self.reads.is_set():
            self.received.append(frame)
        return self.reads.is_set()

    async def close(self, code: Close) -> None:
        self.code = code

    def force_close(self, code: Close, reason: str) -> None:
        raise NotImplementedError

    def probe(self, answered: object) -> None:
        raise NotImplementedError


@pytest.fixture
async def client() -> Client:
    return Client()


@pytest.fixture
async def queue(client: Client) -> SendQueue:
    return SendQueue(client, Unsent(messages=8, bytes=10_000), 30.0, HopSeconds(MILLISECONDS))


def notice(number: int) -> Notice:
    return Notice(limit="duration", seconds_left=number)


async def test_messages_to_a_client_that_reads_do_not_wait(
    client: Client, queue: SendQueue
) -> None:
    for number in range(3):
        queue.send(notice(number))
    assert client.received == [JSON.encode(notice(number)) for number in range(3)]


async def test_no_message_overtakes_one_that_waits(client: Client, queue: SendQueue) -> None:
    sending = asyncio.create_task(queue.run())
    client.reads.clear()
    queue.send(notice(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the task has the message and waits for the client
    client.reads.set()
    queue.send(notice(1))
    assert client.received == []
    queue.close_after_sent(Close.NORMAL)
    queue.send(notice(2))
    await sending
    assert client.received == [JSON.encode(notice(number)) for number in range(2)]
    assert client.code is Close.NORMAL


async def test_a_client_that_does_not_read_may_be_so_many_messages_behind(
    client: Client, queue: SendQueue
) -> None:
    client.reads.clear()
    for number in range(8):
        queue.send(notice(number))
    with pytest.raises(SlowConsumer):
        queue.send(notice(8))
