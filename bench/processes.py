"""Processes that a benchmark starts, and a private Redis."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from redis.backoff import ConstantBackoff
from redis.retry import Retry

import redis
from antiphon.broker.redis_server.embedded import find_redis_server
from antiphon.broker.service.listening import free_port
from antiphon.cli.stack.stack import serves_http

ROOT = Path(__file__).parents[1]
_STOP_S = 15.0
_START_S = 300.0  # a busy machine loads the modules slowly


@contextmanager
def process(*command: str, folder: Path = ROOT, **environment: str) -> Iterator[int]:
    """The id of a child process in `folder`, which is stopped when the block ends."""
    child = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    try:
        yield child.pid
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()


@contextmanager
def private_redis() -> Iterator[tuple[str, int]]:
    """The URL and the process id of a Redis without persistence."""
    port = free_port()
    server = (str(find_redis_server().path), "--port", str(port), "--save", "")
    url = f"redis://127.0.0.1:{port}/0"
    # The server may not listen yet.
    patience = Retry(ConstantBackoff(0.1), retries=round(_START_S / 0.1))
    with process(*server, "--appendonly", "no") as pid:
        with redis.Redis.from_url(url, retry=patience) as client:
            client.ping()
        yield url, pid


def wait_for(url: str) -> None:
    """Return when the URL answers 200. Raises TimeoutError if it does not in time."""
    deadline = time.monotonic() + _START_S
    while not serves_http(url):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} does not answer")
        time.sleep(0.1)


def spent(process: psutil.Process) -> float:
    """CPU seconds so far."""
    times = process.cpu_times()
    return float(times.user + times.system)
