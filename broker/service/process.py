"""The process of a service: its start, the signals that stop it, and its exit status."""

import asyncio
import ctypes
import gc
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog
import uvloop

from antiphon.broker.errors import (
    BadPasswordFile,
    BrokerError,
    BrokerUnavailable,
    IncompatibleRedis,
)
from antiphon.broker.service.logs import configure_logging
from antiphon.broker.settings import CONFIG_STATUS, InvalidSettings
from antiphon.interrupts import INTERRUPTED

T = TypeVar("T")

_WRONG_ARGUMENTS = 2


def refuse_arguments(module: str, command: str) -> None:
    """Exit if the process has arguments: `--help` is explained, and any other one is an error.

    `module` is what `python -m` runs, and `command` is the one of `antiphon` that has flags.
    """
    arguments = sys.argv[1:]
    if not arguments:
        return
    how = "its settings are ANTIPHON_* variables and antiphon.toml (docs/configuration.md)"
    text = f"`python -m {module}` takes no arguments: {how}, and `antiphon {command}` has flags"
    if {"-h", "--help"}.isdisjoint(arguments):
        sys.stderr.write(f"antiphon: {text}\n")
        sys.exit(_WRONG_ARGUMENTS)
    sys.stdout.write(f"{text}.\n")
    sys.exit()


def run_service(
    name: str,
    start: Callable[[], Coroutine[Any, Any, None]],
    *,
    permanent: tuple[type[Exception], ...] = (),
) -> int:
    """Run a service until it stops. Returns its exit status.

    0: it stopped. 1: it could not start, and a later try may succeed. CONFIG_STATUS: it cannot start
    until its settings are changed; errors of `permanent` mean that too. INTERRUPTED: Ctrl-C during the start.
    """
    configure_logging(name)
    allow_open_files()
    needs_change: tuple[type[Exception], ...] = (
        InvalidSettings,
        BadPasswordFile,
        IncompatibleRedis,
        *permanent,
    )
    try:
        uvloop.run(start())
    except KeyboardInterrupt:
        return INTERRUPTED
    except needs_change as error:
        status, reason = CONFIG_STATUS, with_remedy(error)
    except (BrokerError, OSError) as error:
        status, reason = 1, with_remedy(error)
    else:
        return 0
    structlog.get_logger().critical(f"{name}_cannot_start", error=reason)
    return status


def with_remedy(error: Exception) -> str:
    """The text of an error that concerns Redis ends with what to do about it."""
    if not isinstance(error, IncompatibleRedis | BrokerUnavailable):
        return str(error)
    remedy = error.remedy
    if remedy is None and isinstance(error, BrokerUnavailable):
        remedy = "ANTIPHON_REDIS_URL names the server, and `antiphon up` starts one"
    return f"{error}; {remedy}" if remedy else str(error)


def freeze_heap() -> None:
    """Exclude everything that exists now from garbage collections.

    A full collection stops all sessions: for 50 ms with the modules of an edge, 270 ms with PyTorch.
    """
    gc.collect()
    gc.freeze()


_MOST_OPEN_FILES = 1024 * 1024
"""Some systems have a hard limit of 2**30, from which programs allocate tables."""


def allow_open_files() -> None:
    """Raise the soft limit of open files to the hard one.

    Shells and systemd set 1024, so that programs with `select` work. An edge needs one per client.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _MOST_OPEN_FILES) if hard != resource.RLIM_INFINITY else _MOST_OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_FREE_BYTES = 16 * 1024 * 1024
_OWN_MAPPING_BYTES = 1024 * 1024


def keep_freed_memory() -> None:
    """Let glibc keep up to 16 MiB of freed memory, which the next messages use again.

    By default it returns all above 128 KiB to the operating system, one message of audio. Blocks of 1 MiB
    and more are always returned. No effect with another C library.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
        set_option(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)


def stop_on_signals(again: asyncio.Event | None = None) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, for the running loop. A second signal sets `again`."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set() and again is not None:
            again.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop


async def first_of(*works: Awaitable[T]) -> T:
    """The result of the first to end, or what it raises; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        results = [task.result() for task in tasks if task in done]
        return results[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
