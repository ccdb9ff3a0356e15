"""A worker whose simulated engine takes chunks of 200 ms, as `local` does: five units a second."""

import sys
from dataclasses import replace
from unittest.mock import patch

from antiphon.inference_worker import __main__ as command
from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor

INFO = replace(SimulatedProcessor(SimulatedOptions()).info, chunk_ms=200)


def main() -> int:
    with patch.object(SimulatedProcessor, "info", INFO):
        return command.main()


if __name__ == "__main__":
    sys.exit(main())
