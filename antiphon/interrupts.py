"""Ctrl-C while modules are imported. Until this module is imported, Ctrl-C prints a traceback."""

import os
import signal

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of the signal."""


class QuietInterrupts:
    """Let Ctrl-C end the process at once and without a traceback.

    An exception would not do: some modules replace an error of their imports, or ignore it. A process that
    ignores the signal still ignores it.
    """

    def __enter__(self) -> None:
        self._changed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            if self._changed:
                signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        except ValueError:  # not the main thread, which alone gets signals
            self._changed = False

    def __exit__(self, *_: object) -> None:
        if self._changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
