"""The worker's own small HTTP server, for container health checks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI, Response

from inference_worker.bench import Bench
from inference_worker.heartbeat import Heartbeat
from inference_worker.roster import Roster
from shared_schemas.states import WorkerState


class HealthServer(uvicorn.Server):
    """Leaves signals to the worker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    return socket.create_server((host, port))


def health_server(bench: Bench, roster: Roster, heartbeat: Heartbeat) -> HealthServer:
    """`GET /health`: 200 while the worker may serve or loads, 503 once its engine failed."""
    app = FastAPI(title="Antiphon worker", docs_url=None, redoc_url=None)

    @app.get("/health")
    async def health(response: Response) -> dict[str, object]:
        state = heartbeat.shown_state
        if state is WorkerState.ERROR:
            response.status_code = 503
        return {
            "status": "unhealthy" if state is WorkerState.ERROR else "healthy",
            "worker_id": bench.worker_id,
            "state": state,
            "detail": heartbeat.detail,
            "engine": bench.processor.info.name,
            "model": bench.processor.info.model,
            "slots": bench.settings.slots,
            "used": len(roster),
            "counters": bench.counters.row(),
        }

    return HealthServer(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
