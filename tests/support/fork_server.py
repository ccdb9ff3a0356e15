"""Starts services as forks of one process that has already imported them.

Importing a service costs about a second of CPU time, more than the rest of most tests.
Only `antiphon up` and `antiphon demo` start theirs as their users do.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from antiphon.cli.main import _COMMANDS
from support.constants import apply_constants

_POLL_S = 0.01


class ForkedProcess:
    """A child of the fork server, with the interface of `subprocess.Popen`."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(_POLL_S)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A process that forks on request. Its children die with it, and it dies with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )
        atexit.register(self.close)

    def start(
        self,
        module: str,
        *arguments: str,
        folder: Path,
        environment: dict[str, str],
        output: Path,
        errors: Path | None = None,
        imports: tuple[str, ...] = (),
    ) -> ForkedProcess:
        """Calls `main` of `module` in a new process, which has imported `imports` too.

        Its output is appended to the file `output`, its errors to `errors` or to `output` too.
        """
        pid = self.ask(
            module=module,
            imports=imports,
            arguments=arguments,
            folder=str(folder),
            environment=environment,
            output=str(output),
            errors=str(errors or output),
        )
        return ForkedProcess(self, pid)

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


@functools.cache
def fork_server() -> ForkServer:
    """One server for all tests of this process."""
    return ForkServer()


def run_antiphon(
    *arguments: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs the `antiphon` command in `folder`. Its module is imported before the fork."""
    imports = tuple(
        f"antiphon.cli.commands.{module}"
        for module, summaries in _COMMANDS.items()
        if not summaries.keys().isdisjoint(arguments[:1])
    )
    return run_main(
        "antiphon.cli.main", *arguments, folder=folder, environment=environment, imports=imports
    )


def run_main(
    module: str,
    *arguments: str,
    folder: Path,
    environment: dict[str, str],
    imports: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Calls `main` of `module` in a new process, which has imported `imports` too, until it ends."""
    with TemporaryDirectory() as name:
        output, errors = Path(name) / "output", Path(name) / "errors"
        process = fork_server().start(
            module,
            *arguments,
            folder=folder,
            environment=environment,
            output=output,
            errors=errors,
            imports=imports,
        )
        try:
            status = process.wait(timeout=400)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            arguments, status, output.read_text(), errors.read_text()
        )


def _serve() -> None:
    """Answers one JSON object per line: `poll` with an exit status, other requests with a pid."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests handle Ctrl-C
    running: set[int] = set()
    try:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if (pid := request.get("poll")) is not None:
                answer = _status(pid)
                if answer is not None:
                    running.discard(pid)
            else:
                main = importlib.import_module(request["module"]).main
                for name in request["imports"]:
                    importlib.import_module(name)
                gc.freeze()  # a garbage collection in a child would copy every page of these modules
                answer = os.fork()
                if answer == 0:
                    _run(main, request)
                running.add(answer)
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _run(main: Callable[[], int | None], request: dict[str, Any]) -> NoReturn:
    """Skips the teardown of the interpreter, which takes longer than most services run in a test."""
    status = 1
    try:
        _become(request)
        apply_constants()
        status = main() or 0
        gc.collect()  # reports errors of tasks that were never awaited
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become(request: dict[str, Any]) -> None:
    """Sets the arguments, environment, folder, output and signals of a new process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[1:] = request["arguments"]
    created = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = (os.devnull, os.O_RDONLY), (request["output"], created), (request["errors"], created)
    for target, (path, flags) in enumerate(files):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, target)
        os.close(opened)


if __name__ == "__main__":
    _serve()
    os._exit(0)  # the teardown of all these modules takes seconds on a busy machine
