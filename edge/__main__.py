"""`python -m antiphon.edge`: runs one edge, with settings from the environment and `antiphon.toml`."""

from __future__ import annotations

import sys

import structlog
import uvloop
from pydantic import ValidationError

from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging
from antiphon.edge.service import run
from antiphon.edge.settings import EdgeSettings, InvalidAccessSettings


def main(settings: EdgeSettings | None = None) -> int:
    """Returns the exit status: 0 after a normal stop, 1 if the edge could not start."""
    configure_logging("edge")
    try:
        uvloop.run(run(settings or EdgeSettings()))
    except (BrokerError, OSError, ValidationError, InvalidAccessSettings) as error:
        structlog.get_logger().critical("edge_cannot_start", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
