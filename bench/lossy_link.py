"""How late TCP delivers the sound of a call through a link that loses and delays packets.

    python bench/lossy_link.py --loss 2 --rtt-ms 60 --unit-ms 1000

Needs root on Linux, `unshare`, `ip` and /dev/net/tun. Two network namespaces are connected by TUN devices, and
this process passes the packets on. Units of sound go up (16 kHz) and down (24 kHz), both of 16 bits. The
processes run before all others (SCHED_FIFO), so that a busy machine does not change the figures.
"""

import argparse
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import numpy as np

_CLIENTS, _SERVER, _PORT = "10.9.0.1", "10.9.0.2", 8006
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU = 1500
_HEAD = struct.Struct("!dI")
"""When a unit was due, and its length."""

_UP, _DOWN = 32_000, 48_000
_PRIORITY = os.sched_param(10)


def open_tun(address: str) -> int:
    """A device of this namespace, and the only way to the other one."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH", b"lossy0", _IFF_TUN | _IFF_NO_PI))
    for words in ("link set lo up", f"addr add {address}/24 dev lossy0", "link set lossy0 up"):
        subprocess.run(["ip", *words.split()], check=True)
    return tun


def relay(one: int, other: int, loss: float, delay_s: float, jitter_s: float) -> None:
    """Pass packets on, in order. Runs until the process ends."""
    chance = random.Random(7)
    waiting: list[tuple[float, int, int, bytes]] = []
    last = {one: 0.0, other: 0.0}
    number = 0
    while True:
        due = waiting[0][0] - time.monotonic() if waiting else 1.0
        for tun in select.select([one, other], [], [], max(0.0, due))[0]:
            packet = os.read(tun, _MTU)
            if chance.random() < loss:
                continue
            at = time.monotonic() + delay_s + chance.uniform(0, jitter_s)
            last[tun] = at = max(at, last[tun])
            number += 1
            heapq.heappush(waiting, (at, number, other if tun == one else one, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(waiting)
            os.write(to, packet)


def talk(connection: socket.socket, bytes_per_s: int, unit_s: float, count: int) -> list[float]:
    """Send units when they are due, and return how late those of the other side came, in seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sound = bytes(int(bytes_per_s * unit_s))

    def send() -> None:
        due = time.monotonic() + random.random() * unit_s
        for _ in range(count):
            due += unit_s
            time.sleep(max(0.0, due - time.monotonic()))
            connection.sendall(_HEAD.pack(due, len(sound)) + sound)

    sender = threading.Thread(target=send)
    sender.start()
    took = []
    with connection.makefile("rb") as units:
        for _ in range(count):
            due_at, length = _HEAD.unpack(units.read(_HEAD.size))
            units.read(length)
            took.append(time.monotonic() - due_at)
    sender.join()
    return took


def talk_all(connections: Iterable[socket.socket], *how: float) -> list[float]:
    results: list[float] = []
    threads = [
        threading.Thread(target=lambda each=each: results.extend(talk(each, *how)))  # type: ignore[arg-type]
        for each in connections
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def show(what: str, took: list[float]) -> None:
    ms = np.array(took) * 1000
    p50, p90, p99 = np.percentile(ms, [50, 90, 99])
    late = ", ".join(f"{(ms > p50 + by).mean():.1%} by {by} ms" for by in (100, 200, 800))
    print(
        f"{what}: p50 {p50:.0f} ms, p90 {p90:.0f}, p99 {p99:.0f}, max {ms.max():.0f}; late: {late}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", type=float, default=2.0, help="percent of the packets, each way")
    parser.add_argument("--rtt-ms", type=float, default=60.0)
    parser.add_argument("--jitter-ms", type=float, default=10.0, help="at most, each way")
    parser.add_argument("--unit-ms", type=float, default=1000.0)
    parser.add_argument("--calls", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--far", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unit_s = arguments.unit_ms / 1000
    count = int(arguments.seconds / unit_s)
    if os.environ.get("IN_NAMESPACE") is None:
        os.environ["IN_NAMESPACE"] = "yes"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    os.sched_setscheduler(0, os.SCHED_FIFO, _PRIORITY)
    if arguments.far is not None:
        with socket.socket(fileno=arguments.far) as near:
            socket.send_fds(near, [b"tun"], [open_tun(_SERVER)])
            with socket.create_server((_SERVER, _PORT)) as server:
                near.send(b"ready")
                accepted = [server.accept()[0] for _ in range(arguments.calls)]
            show("up  ", talk_all(accepted, _DOWN, unit_s, count))
        return
    near, far = socket.socketpair()
    command = ["unshare", "-n", sys.executable, *sys.argv, "--far", str(far.fileno())]
    with subprocess.Popen(command, pass_fds=[far.fileno()]):
        far.close()
        _, [server_tun], _, _ = socket.recv_fds(near, 16, 1)
        link = (arguments.loss / 100, arguments.rtt_ms / 2000, arguments.jitter_ms / 1000)
        tuns = (open_tun(_CLIENTS), server_tun)
        threading.Thread(target=relay, args=(*tuns, *link), daemon=True).start()
        assert near.recv(16) == b"ready"
        calls = [socket.create_connection((_SERVER, _PORT)) for _ in range(arguments.calls)]
        show("down", talk_all(calls, _UP, unit_s, count))


if __name__ == "__main__":
    main()
