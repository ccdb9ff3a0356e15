"""TLS for tests: certificates of a private authority, and a proxy that adds TLS to any server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trustme

from support.tcp_server import connection_to, pump, tcp_server


class TestAuthority:
    """Issues a certificate for the names of a server, and one for a client."""

    __test__ = False

    def __init__(self, folder: Path, *names: str) -> None:
        """`names`: `localhost` and 127.0.0.1 by default."""
        authority = trustme.CA()
        self._server = authority.issue_cert(*(names or ("localhost", "127.0.0.1")))
        self._authority = authority
        client = authority.issue_cert("client@antiphon.test")
        self.ca = folder / "ca.pem"
        self.certificate = folder / "certificate.pem"
        self.key = folder / "key.pem"
        self.server_certificate = folder / "server_certificate.pem"
        self.server_key = folder / "server_key.pem"
        authority.cert_pem.write_to_path(self.ca)
        self._server.cert_chain_pems[0].write_to_path(self.server_certificate)
        self._server.private_key_pem.write_to_path(self.server_key)
        client.cert_chain_pems[0].write_to_path(self.certificate)
        client.private_key_pem.write_to_path(self.key)

    def server_context(self, *, asks_client: bool = True) -> ssl.SSLContext:
        """`asks_client`: for a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.configure_cert(context)
        self._authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED if asks_client else ssl.CERT_NONE
        return context


@asynccontextmanager
async def tls_proxy(target: int, context: ssl.SSLContext, *, port: int = 0) -> AsyncIterator[int]:
    """Forwards what arrives by TLS to a port of this machine; yields its own port (0: any)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connection_to(target) as (replies, requests):
            pumps = [
                asyncio.create_task(_pump_and_close(reader, requests)),
                asyncio.create_task(_pump_and_close(replies, writer)),
            ]
            try:
                await asyncio.wait(pumps)
            finally:
                for pump in pumps:
                    pump.cancel()

    async with tcp_server(serve, port=port, tls=context) as own:
        yield own


async def _pump_and_close(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    await pump(source, sink)
    sink.close()
