"""`python -m antiphon.cleanup_job [--once] [--dry-run]`: settings from the environment and `antiphon.toml`."""

from __future__ import annotations

import argparse
import asyncio
import sys

import structlog

from antiphon.broker.service.logs import configure_logging
from antiphon.cleanup_job.service import run, run_once
from antiphon.cleanup_job.settings import CleanupSettings


def main() -> int:
    """Exit status: 0 after an orderly end, 1 when a single sweep failed."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.cleanup_job")
    parser.add_argument("--once", action="store_true", help="one sweep, then end")
    parser.add_argument("--dry-run", action="store_true", help="only report; implies --once")
    flags = parser.parse_args()
    configure_logging("cleanup")
    settings = CleanupSettings(dry_run=True) if flags.dry_run else CleanupSettings()
    try:
        asyncio.run(_once(settings) if flags.once or flags.dry_run else run(settings))
    except OSError as error:
        structlog.get_logger().critical("cleanup_failed", error=str(error))
        return 1
    return 0


async def _once(settings: CleanupSettings) -> None:
    report = await run_once(settings)
    sys.stdout.write(report.model_dump_json(indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
