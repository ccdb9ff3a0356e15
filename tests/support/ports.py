"""Ports for servers that a test starts."""

import os
import random
import socket

_FIRST = 11_000
_SHARE = 1250
_PROCESSES = 8
_chance = random.SystemRandom()
_given: list[int] = []


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing else takes before the server does.

    The system gives clients higher ones, and each process of pytest-xdist has its own share.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    while True:
        port = _FIRST + process * _SHARE + _chance.randrange(_SHARE)
        if port not in _given[-_SHARE // 2 :] and is_free(port):
            _given.append(port)
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
