"""Many connections that begin or end at once: what one iteration of the event loop does for them."""

import asyncio
import gc
import socket
import weakref
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from antiphon.edge.errors import ClientGone
from antiphon.edge.transport.fair_queue import PER_ITERATION
from support.edge_protocols import IterationCounter, serving
from support.raw_socket import HANDSHAKE

CONNECTIONS = 100


def connect(address: tuple[str, int], data: bytes) -> list[socket.socket]:
    """Connections with a request each, all within one iteration of the event loop."""
    clients = [socket.create_connection(address) for _ in range(CONNECTIONS)]
    for client in clients:
        client.sendall(data)
    return clients


@pytest.mark.parametrize("noticed_by", ["receive", "send"])
def test_an_iteration_begins_and_ends_a_bounded_number_of_connections(noticed_by: str) -> None:
    """Applications notice a lost connection while they receive, or all at once when they send."""

    async def run() -> dict[str, int]:
        iterations, closed = IterationCounter(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            iterations.count("handshakes")
            await receive()
            await send({"type": "websocket.accept"})
            iterations.count("accepted")
            if noticed_by == "send":
                await closed.wait()
                with pytest.raises(OSError):  # noqa: PT011 - uvicorn's exception has no message
                    await send({"type": "websocket.send", "text": "{}"})
            else:
                with pytest.raises(ClientGone):
                    await scope["state"]["controls"].receive_frame(binary=False)
            iterations.count("ended")

        async with serving(app, lambda _: iterations.count("connections")) as (address, state):
            clients = connect(address, HANDSHAKE)
            await iterations.wait_for("accepted", CONNECTIONS)
            for client in clients:
                client.close()
            async with asyncio.timeout(60):
                while state.connections:
                    await asyncio.sleep(0)
            closed.set()
            await iterations.wait_for("ended", CONNECTIONS)
        kinds = ("connections", "handshakes", "accepted", "ended")
        return {kind: iterations.most(kind) for kind in kinds}

    most = uvloop.run(run())  # as in a service
    assert max(most.values()) <= PER_ITERATION, most


@pytest.mark.parametrize("closed_by", ["client", "server"])
def test_a_closed_connection_leaves_no_garbage(closed_by: str) -> None:
    """A full collection stops the event loop for longer than anything else in a burst."""

    async def run() -> int:
        iterations, protocols = IterationCounter(), list[weakref.ref[object]]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            protocols.append(weakref.ref(scope["state"]["controls"]))
            await receive()
            await send({"type": "websocket.accept"})
            iterations.count("accepted")
            if closed_by == "server":
                await send({"type": "websocket.close", "code": 1013})
            with suppress(ClientGone):
                await scope["state"]["controls"].receive_frame(binary=False)

        made = list[weakref.ref[object]]()
        async with serving(app, lambda new: made.append(weakref.ref(new))) as (address, _):
            clients = connect(address, HANDSHAKE)
            await iterations.wait_for("accepted", CONNECTIONS)
            for client in clients:
                client.close()
        assert len(protocols) == len(made) == CONNECTIONS
        return sum(reference() is not None for reference in protocols + made)

    gc.disable()
    try:
        assert not uvloop.run(run())
    finally:
        gc.enable()
