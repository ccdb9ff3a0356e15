"""`python -m antiphon.recorder_service`: one recorder, settings from the environment and `antiphon.toml`."""

import sys

from antiphon.interrupts import QuietInterrupts

with QuietInterrupts():
    from antiphon.broker.service.process import refuse_arguments, run_service
    from antiphon.recorder_service.service import serve
    from antiphon.recorder_service.settings import RecorderSettings


def main() -> int:
    """Returns the exit status."""
    refuse_arguments("antiphon.recorder_service", "recorder")
    return run_service("recorder", lambda: serve(RecorderSettings()))


if __name__ == "__main__":
    sys.exit(main())
