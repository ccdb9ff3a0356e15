"""`python -m antiphon.recorder_service`: one recorder, settings from the environment and `antiphon.toml`."""

from __future__ import annotations

import asyncio
import sys

import structlog

from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging
from antiphon.recorder_service.service import serve
from antiphon.recorder_service.settings import RecorderSettings


def main() -> int:
    """Exit status: 0 after an orderly stop, 1 when the recorder could not start."""
    configure_logging("recorder")
    try:
        asyncio.run(serve(RecorderSettings()))
    except (BrokerError, OSError) as error:
        structlog.get_logger().critical("recorder_cannot_start", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
