"""`python -m antiphon.cleanup_job`: the loop, settings from the environment and `antiphon.toml`."""

import sys

from antiphon.interrupts import QuietInterrupts

with QuietInterrupts():
    from antiphon.broker.service.process import refuse_arguments, run_service
    from antiphon.cleanup_job.service import run
    from antiphon.cleanup_job.settings import CleanupSettings


def main() -> int:
    """Returns the exit status."""
    refuse_arguments("antiphon.cleanup_job", "cleanup")
    return run_service("cleanup", lambda: run(CleanupSettings()))


if __name__ == "__main__":
    sys.exit(main())
