"""A worker whose turns wait for the user's words for as long as a busy machine needs."""

import sys
from unittest.mock import patch

from antiphon.inference_worker import __main__ as command
from antiphon.inference_worker.sessions import transcripts


def main() -> int:
    with patch.object(transcripts, "_PATIENCE_S", 60.0):
        return command.main()


if __name__ == "__main__":
    sys.exit(main())
