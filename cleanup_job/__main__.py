"""`python -m antiphon.cleanup_job [--once] [--dry-run]`: settings from the environment and `antiphon.toml`."""

from __future__ import annotations

import argparse
import sys

from antiphon.broker.service.process import run_service
from antiphon.cleanup_job.service import run, run_once
from antiphon.cleanup_job.settings import CleanupSettings


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.cleanup_job")
    parser.add_argument("--once", action="store_true", help="one sweep, then end")
    parser.add_argument("--dry-run", action="store_true", help="only report; implies --once")
    flags = parser.parse_args()

    async def start() -> None:
        settings = CleanupSettings(dry_run=True) if flags.dry_run else CleanupSettings()
        if flags.once or flags.dry_run:
            report = await run_once(settings)
            sys.stdout.write(report.model_dump_json(indent=2) + "\n")
        else:
            await run(settings)

    return run_service("cleanup", start)


if __name__ == "__main__":
    sys.exit(main())
