"""What the UDP socket of a call takes, and from whom."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("aiortc", reason="the extra webrtc is not installed")

from aioice import Candidate, Connection
from aioice.stun import Class, Message, Method

from antiphon.edge.webrtc.ice import CallIce, UdpPlaces

SOUND = bytes([0x80]) + bytes(40)
PASSWORD = "p" * 22


@pytest.fixture
async def ice() -> AsyncIterator[CallIce]:
    found = CallIce(UdpPlaces("127.0.0.1", None, ()))
    await found.gather_candidates()
    yield found
    await found.close()


@pytest.fixture
def stranger(ice: CallIce) -> Iterator[socket.socket]:
    with udp(ice) as found:
        yield found


def udp(ice: CallIce) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.connect(ice.announced[0])
    return found


def check(ice: CallIce) -> bytes:
    """A client sends it from each of its addresses."""
    message = Message(Method.BINDING, Class.REQUEST)
    message.attributes["USERNAME"] = f"{ice.local_username}:user"
    message.attributes["PRIORITY"] = 1
    message.attributes["ICE-CONTROLLING"] = 1
    message.add_message_integrity(ice.local_password.encode())
    return bytes(message)


async def connected(ice: CallIce, earlier: Connection | None = None) -> Connection:
    """`earlier`: the same client, whose address has changed."""
    client = Connection(
        ice_controlling=True,
        use_ipv6=False,
        local_username=earlier.local_username if earlier else None,
        local_password=earlier.local_password if earlier else None,
    )
    await client.gather_candidates()
    host, port = ice.announced[0]
    await client.add_remote_candidate(Candidate("1", 1, "udp", 1, host, port, "host"))
    await client.add_remote_candidate(None)
    client.remote_username, client.remote_password = ice.local_username, ice.local_password
    ice.remote_username, ice.remote_password = client.local_username, client.local_password
    await asyncio.gather(client.connect(), *([] if earlier else [ice.connect()]))
    return client


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_nothing_is_kept_of_what_comes_before_the_client(
    ice: CallIce, stranger: socket.socket
) -> None:
    for data in (SOUND, b"", b"\x00", b"\x13junk", bytes([22]) + bytes(60_000)):
        stranger.send(data)
    await settle()
    assert ice._queue.empty()


async def test_only_the_client_is_heard(ice: CallIce, stranger: socket.socket) -> None:
    client = await connected(ice)
    for data in (SOUND, b"", b"\x00", bytes([22]) + bytes(60)):
        stranger.send(data)
    await settle()
    assert ice._queue.empty()
    await client.send(b"")
    await client.send(SOUND)
    async with asyncio.timeout(90):
        assert await ice.recv() == SOUND
    await client.close()


async def test_a_client_whose_address_has_changed_is_heard(ice: CallIce) -> None:
    first = await connected(ice)
    second = await connected(ice, first)
    await second.send(SOUND)
    async with asyncio.timeout(90):
        assert await ice.recv() == SOUND
        await ice.send(b"answer")
        assert await second.recv() == b"answer"
    await first.close()
    await second.close()


async def test_sound_that_nobody_reads_is_bounded(ice: CallIce) -> None:
    client = await connected(ice)
    for _ in range(40):
        for _ in range(25):
            await client.send(SOUND)
        await asyncio.sleep(0)
    await settle()
    assert 0 < ice._queue.qsize() <= 256
    await client.close()


async def test_a_client_has_a_limited_number_of_addresses(ice: CallIce) -> None:
    ice.remote_username, ice.remote_password = "user", PASSWORD
    connecting = asyncio.create_task(ice.connect())
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(udp(ice)).send(check(ice))
            await asyncio.sleep(0)
        await settle()
        assert len(ice.remote_candidates) == 32
    connecting.cancel()
    await asyncio.wait([connecting])
