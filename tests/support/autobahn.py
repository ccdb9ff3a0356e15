"""Runs the WebSocket cases of Autobahn's test suite: `PYTHONPATH=tests python -m support.autobahn`.

Its fuzzing client, `wstest` of the package `autobahntestsuite`, needs Python 2.7 or the image
`crossbario/autobahn-testsuite`, so this is not part of the automatic tests. The cases expect an
echo: here an application on the edge's own WebSocket protocol sends each message back.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from antiphon.edge.access.http_limits import HttpConnectionLimiter
from antiphon.edge.access.limits import ByteBudget
from antiphon.edge.errors import ClientGone
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.metrics import EdgeMetrics
from antiphon.edge.transport import websocket_protocol
from antiphon.edge.transport.fair_queue import FairQueue
from support.redis_server import free_port

CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"]
_MAX_BYTES = 16 * 1024 * 1024
_PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}
"""Non-strict: the edge reports invalid UTF-8 at the end of a frame, not in the middle of it."""


async def echo(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "websocket"
    await receive()
    await send({"type": "websocket.accept"})
    with suppress(ClientGone):
        while True:
            match await scope["state"]["receive_frame"](binary=True):
                case Utf8Text(data=data):
                    await send({"type": "websocket.send", "text": data.decode()})
                case str() as text:
                    await send({"type": "websocket.send", "text": text})
                case data:
                    await send({"type": "websocket.send", "bytes": data})


def echo_server(port: int) -> uvicorn.Server:
    """Without limits of rate: some cases send thousands of small frames."""
    websocket_protocol.FRAME_BURST = 1_000_000
    limiter = HttpConnectionLimiter(10.0, 10.0, 0, lambda _: None, EdgeMetrics("edge").rejected)
    limits = {
        "bytes_per_s": 1e9,
        "budget": ByteBudget(10**9),
        "connection_limiter": limiter,
        "fair_queue": FairQueue(),
    }
    protocol = type("EchoProtocol", (websocket_protocol.EdgeWebSocketProtocol,), limits)
    config = uvicorn.Config(
        echo, port=port, ws=protocol, ws_max_size=_MAX_BYTES, lifespan="off", log_level="warning"
    )
    return uvicorn.Server(config)


async def run(wstest: list[str], folder: Path) -> dict[str, Any]:
    """The result of each case."""
    port = free_port()
    servers = [{"agent": "antiphon", "url": f"ws://127.0.0.1:{port}"}]
    spec = {"outdir": str(folder), "servers": servers, "cases": CASES, "exclude-cases": []}
    (folder / "spec.json").write_text(json.dumps({**spec, "exclude-agent-cases": {}}))
    server = echo_server(port)
    serving = asyncio.create_task(server.serve())
    try:
        process = await asyncio.create_subprocess_exec(
            *wstest, "-m", "fuzzingclient", "-s", str(folder / "spec.json"), stdout=sys.stderr
        )
        assert await process.wait() == 0
    finally:
        server.should_exit = True
        await serving
    results: dict[str, Any] = json.loads((folder / "index.json").read_text())["antiphon"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wstest", default="wstest", help="the command of the fuzzing client")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = asyncio.run(run(shlex.split(options.wstest), Path(name)))
    print(dict(Counter(result["behavior"] for result in results.values())))
    failed = {
        case: result
        for case, result in results.items()
        if {result["behavior"], result["behaviorClose"]} - _PASSED
    }
    for case, result in failed.items():
        print(f"{case}: {result['behavior']}, close {result['behaviorClose']}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
