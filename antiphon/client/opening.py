"""Opening the link of a conversation: one that ends with its socket, or one that comes back."""

from __future__ import annotations

from itertools import cycle

from websockets.asyncio.client import ClientConnection

from antiphon.client.address import edge_address
from antiphon.client.link import Connecting, Link, open_socket
from antiphon.client.resuming import ResumingLink
from antiphon.shared_schemas.audio import PcmFormat

_GRACE_S = 15.0


async def open_link(url: str, path: str, how: Connecting, **query: str | None) -> Link:
    """Connect to `path` of an edge such as `ws://127.0.0.1:8006`. Raises CannotConnect."""
    pcm = how.get("pcm", PcmFormat.F32) if how.get("binary") else PcmFormat.F32
    query["pcm"] = None if pcm is PcmFormat.F32 else str(pcm)
    if not how.get("resume"):
        return Link(await open_socket(edge_address(url, path, **query), how), pcm)
    query["resume"] = "1"
    edges = cycle([url, *how.get("other_edges", ())])

    async def reopen(token: str, seq: int) -> ClientConnection:
        back = {**query, "resume_token": token, "seq": str(seq)}
        return await open_socket(edge_address(next(edges), path, **back), how)

    socket = await open_socket(edge_address(url, path, **query), how)
    return ResumingLink(socket, pcm, reopen, how.get("resume_for_s", _GRACE_S))
