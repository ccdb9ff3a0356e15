"""`python -m antiphon.edge`: runs one edge, with settings from the environment and `antiphon.toml`."""

import sys

from antiphon.interrupts import QuietInterrupts

with QuietInterrupts():
    from antiphon.broker.service.process import refuse_arguments, run_service
    from antiphon.edge.service import run
    from antiphon.edge.settings import EdgeSettings


def main() -> int:
    """Returns the exit status."""
    refuse_arguments("antiphon.edge", "edge")
    return run_service("edge", lambda: run(EdgeSettings()))


if __name__ == "__main__":
    sys.exit(main())
