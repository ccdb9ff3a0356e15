"""Compares the CPU time of the edge with that of the public demo's gateway, under the same load, in turns.

    python bench/gateway_ratio.py --gateway ../MiniCPM-o-Demo --sessions 100 --rounds 3

`--gateway` is a checkout of github.com/OpenBMB/MiniCPM-o-Demo with a config.json. Its gateway.py runs
unchanged. `--python` is an interpreter with the packages that its requirements.txt names for the web
service. One more process takes the place of all its workers, each at a separate address in 127.0.0.0/8,
and answers every chunk at once with a second of speech. By default the gateway compresses messages to its
workers. With `--plain` the workers refuse compression, which is the best case of the gateway. Clients never
compress. The figures are the CPU time of the gateway or the edge per session and second, without Redis,
workers and clients.
"""

import argparse
import json
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from antiphon.broker.redis_server.embedded import free_port
from antiphon.cli.load.plan import LoadPlan
from antiphon.edge.protocols.duplex import ResultExtras, result_message
from antiphon.shared_schemas.messages.duplex import Prepared
from antiphon.shared_schemas.wire import Stopped, encode_text
from edge_load import answer, load_plan, measure, run_edge
from processes import ROOT, process, wait_for

SPOKEN = result_message(answer(1, 0, 0.0, 0.0), 0.0, ResultExtras())
BEFORE_TIME, AFTER_TIME = encode_text(SPOKEN).text().split('"current_time":0,')
PREPARED = encode_text(Prepared(prompt_length=1, recording_session_id=None)).text()
STOPPED = encode_text(Stopped(session_id="bench")).text()


def address(number: int) -> str:
    """The address of one worker. The gateway gives each of its workers one session."""
    return f"127.{1 + number // 250}.0.{1 + number % 250}"


async def worker_app(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application: /health reports idle, and every WebSocket gets the answers of a worker."""
    if scope["type"] == "http":
        body = b'{"worker_status": "idle", "model_loaded": true}'
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    received_ms = 0
    while (event := await receive())["type"] == "websocket.receive":
        if '"audio_chunk"' in event["text"][:40]:
            received_ms += 1000
            text = f'{BEFORE_TIME}"current_time":{received_ms},{AFTER_TIME}'
        else:
            text = PREPARED if '"prepare"' in event["text"][:40] else STOPPED
        await send({"type": "websocket.send", "text": text})


def serve_workers(port: int, *, compress: bool) -> None:
    """Serve on every address of the loopback network, until killed."""
    config = uvicorn.Config(
        worker_app,
        host="0.0.0.0",  # all of 127.0.0.0/8
        port=port,
        log_level="warning",
        ws="websockets-sansio",
        ws_per_message_deflate=compress,
        lifespan="off",
    )
    uvloop.run(uvicorn.Server(config).serve())


def run_gateway(plan: LoadPlan, folder: Path, python: str, *, compress: bool) -> dict[str, Any]:
    """Start the gateway and its workers, measure, stop them."""
    port, workers_port = free_port(), free_port()
    workers = ",".join(f"{address(number)}:{workers_port}" for number in range(plan.sessions))
    peer = [sys.executable, __file__, "--gateway", str(folder), "--serve", str(workers_port)]
    gateway = ["gateway.py", "--http", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        peer += [] if compress else ["--plain"]
        stack.enter_context(process(*peer, PYTHONPATH=str(ROOT)))
        wait_for(f"http://{address(0)}:{workers_port}/health")
        pid = stack.enter_context(
            process(
                *(python, *gateway, "--workers", workers),
                *("--max-queue-size", str(plan.sessions + 1)),
                folder=folder,
            )
        )
        wait_for(f"http://127.0.0.1:{port}/health")
        return uvloop.run(measure(f"ws://127.0.0.1:{port}", plan, {"gateway": pid}))


def figures(report: dict[str, Any], name: str) -> dict[str, Any]:
    """The figures to compare: CPU milliseconds per session and second, latency, lost and late results."""
    audio = report["kinds"]["audio"]
    return {
        "cpu_ms": report["cpu_ms_per_session_s"][name],
        "p50_ms": audio["latency_ms"]["p50"],
        "p99_ms": audio["latency_ms"]["p99"],
        **{key: audio[key] for key in ("due", "lost", "late")},
    }


def main() -> None:
    """Measure in turns, and print every round, the medians and their ratio as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gateway", type=Path, required=True, help="the folder of gateway.py")
    parser.add_argument("--python", default=sys.executable, help="the interpreter for gateway.py")
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="no compression on the workers' side")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve_workers(options.serve, compress=not options.plain)
        return
    plan, rounds = load_plan(options.sessions, options.seconds), []
    for _ in range(options.rounds):
        theirs = run_gateway(plan, options.gateway, options.python, compress=not options.plain)
        ours = run_edge(plan)
        rounds.append({"gateway": figures(theirs, "gateway"), "edge": figures(ours, "edge")})
        print(json.dumps(rounds[-1]), file=sys.stderr)
    medians = {
        name: statistics.median(round_[name]["cpu_ms"] for round_ in rounds)
        for name in ("gateway", "edge")
    }
    ratio = round(medians["edge"] / medians["gateway"], 3)
    print(json.dumps({"rounds": rounds, "cpu_ms": medians, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
