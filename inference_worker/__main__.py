"""`python -m antiphon.inference_worker`: one worker, settings from the environment and `antiphon.toml`."""

import sys

from antiphon.interrupts import QuietInterrupts

with QuietInterrupts():
    from antiphon.broker.service.process import refuse_arguments, run_service
    from antiphon.inference_worker.engines.types import EngineLoadError
    from antiphon.inference_worker.settings import WorkerSettings
    from antiphon.inference_worker.worker import run


def main() -> int:
    refuse_arguments("antiphon.inference_worker", "worker")
    return run_service("worker", lambda: run(WorkerSettings()), permanent=(EngineLoadError,))


if __name__ == "__main__":
    sys.exit(main())
