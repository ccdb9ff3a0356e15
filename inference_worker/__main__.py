"""`python -m antiphon.inference_worker`: one worker, settings from the environment and `antiphon.toml`."""

from __future__ import annotations

import asyncio
import sys

import structlog

from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.worker import run


def main() -> int:
    """Returns the exit status: 0 after an orderly stop, 1 if the worker could not start."""
    configure_logging("worker")
    try:
        asyncio.run(run(WorkerSettings()))
    except (EngineLoadError, BrokerError) as error:
        structlog.get_logger().critical("worker_cannot_start", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
