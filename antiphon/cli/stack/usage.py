"""CPU time and memory of a stack's processes on this machine."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

GENERATOR = "generator"
_PROGRAMS = {
    "redis-server": "redis",
    "valkey-server": "redis",
    "antiphon.edge": "edge",
    "antiphon.inference_worker": "worker",
    "antiphon.recorder_service": "recorder",
    "antiphon.cleanup_job": "cleanup",
}
"""Part of a command line, and the service that it belongs to."""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """CPU seconds so far and resident MiB, by process name."""

    cpu_s: dict[str, float]
    rss_mib: dict[str, float]

    @classmethod
    def of(cls, pids: Mapping[str, int]) -> "ProcessUsage":
        """The current usage of the processes that are alive."""
        cpu_s, rss_mib = {}, {}
        for name, pid in pids.items():
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                rss_mib[name] = round(process.memory_info().rss / 2**20, 1)
            except psutil.NoSuchProcess:
                continue
            cpu_s[name] = float(times.user + times.system)
        return cls(cpu_s, rss_mib)

    def since(self, before: "ProcessUsage") -> dict[str, float]:
        """CPU seconds since then, of the processes that were alive all the time."""
        return {
            name: self.cpu_s[name] - s for name, s in before.cpu_s.items() if name in self.cpu_s
        }


def with_generator(pids: Mapping[str, int]) -> dict[str, int]:
    """Adds this process, which simulates the users."""
    return {**pids, GENERATOR: os.getpid()}


def processes_of(supervisor: int) -> dict[str, int]:
    """The services of an `antiphon up` by name; empty if it has ended."""
    try:
        children = psutil.Process(supervisor).children(recursive=True)
    except psutil.NoSuchProcess:
        return {}
    found: dict[str, int] = {}
    for child in children:
        with suppress(psutil.Error):
            command = child.cmdline()[:4]
            found |= {_PROGRAMS[name]: child.pid for name in _PROGRAMS if name in " ".join(command)}
    return found


def listening_at(pid: int) -> list[str]:
    """`HOST:PORT` of each TCP port on which a process listens, with the loopback address for any."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return []
    addresses = [one.laddr for one in connections if one.status == psutil.CONN_LISTEN]
    hosts = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
    named = sorted({(hosts.get(address.ip, address.ip), address.port) for address in addresses})
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in named]
