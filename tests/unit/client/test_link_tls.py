"""A `wss://` address is verified with this machine's authorities, or with the caller's."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon.client.errors import CannotConnect
from antiphon.client.link import open_socket
from antiphon.client.options import ClientOptions
from antiphon.client.recordings import Recordings

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes a certificate with openssl"
)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    made, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


@asynccontextmanager
async def greeting(certificate: tuple[Path, Path]) -> AsyncIterator[str]:
    """A server that sends one message; yields its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def greet(socket: ServerConnection) -> None:
        await socket.send("welcome")

    async with serve(greet, "127.0.0.1", 0, ssl=context) as server:
        yield f"wss://localhost:{next(iter(server.sockets)).getsockname()[1]}"


async def received(address: str, how: ClientOptions) -> object:
    socket = await open_socket(address, how)
    try:
        return await socket.recv()
    finally:
        await socket.close()


async def test_the_machines_authorities_are_used_by_default(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with greeting(certificate) as address:
        with pytest.raises(
            CannotConnect, match=r"is not trusted .*self.signed.*; `tls` or SSL_CERT_FILE"
        ):
            await received(address, ClientOptions())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert await received(address, ClientOptions()) == "welcome"


async def test_the_caller_may_pass_other_authorities(certificate: tuple[Path, Path]) -> None:
    async with greeting(certificate) as address:
        trust = ssl.create_default_context(cafile=str(certificate[0]))
        assert await received(address, ClientOptions(tls=trust)) == "welcome"


async def test_a_context_alone_does_not_encrypt() -> None:
    trust = ssl.create_default_context()
    with pytest.raises(CannotConnect, match="`tls` needs an address that begins with wss://"):
        await open_socket("ws://127.0.0.1:1", ClientOptions(tls=trust))
    with pytest.raises(CannotConnect, match="`tls` needs an address"):
        await asyncio.to_thread(Recordings("http://127.0.0.1:1", tls=trust).list)
