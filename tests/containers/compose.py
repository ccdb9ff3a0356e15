"""`docker compose` for tests, and queries of the running stack."""

import asyncio
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ports import free_port
from support.stack import until

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {"redis": 1, "edge": 2, "caddy": 1, "worker": 1, "recorder": 2, "cleanup": 1}
"""The default profile, with the number of containers of each."""

WITHIN_S = 120.0
"""Longest wait for an answer; only a failing test reaches it."""

_ASK_PROMETHEUS = """
import json, time, urllib.request as web

def ask(path):
    with web.urlopen("http://prometheus:9090/" + path, timeout=60) as answer:
        return answer.read()

for _ in range(300):
    try:
        ask("-/ready")
        break
    except OSError:
        time.sleep(0.2)
print(json.dumps([json.loads(ask("api/v1/" + path)) for path in {paths!r}]))
"""
"""Docker's `running` is earlier than the first connection that Prometheus accepts."""


@dataclass(frozen=True, slots=True)
class Compose:
    folder: Path
    environment: dict[str, str]

    def __call__(self, *words: str) -> str:
        return self.run("docker", "compose", *words)

    def run(self, *command: str) -> str:
        """Runs a command in the environment of the stack and returns its output."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (
            f"{' '.join(command)}:\n{done.stdout[-9000:]}{done.stderr[-3000:]}"
        )
        return done.stdout

    def docker(self, *words: str) -> str:
        return subprocess.run(
            ["docker", *words], env=self.environment, check=True, capture_output=True, text=True
        ).stdout

    def containers(self, service: str) -> list[dict[str, Any]]:
        """The output of `ps` for the service's containers."""
        lines = self("ps", "--all", "--format", "json", service).splitlines()
        return [json.loads(line) for line in lines]

    def tell(self, service: str, program: str) -> str:
        """The output of a shell program in the service's container, and its errors.

        Also those of Docker: it refuses to run a program while the container starts again.
        """
        command = ["docker", "compose", "exec", "-T", service, "sh", "-c", program]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=self.folder, env=self.environment, **how)
        return str(done.stdout)

    def python(self, service: str, program: str) -> str:
        """Runs a program in one of the service's containers and returns its output."""
        return self("exec", "-T", service, "python", "-c", program)

    def prometheus(self, *paths: str) -> list[Any]:
        """The answers of Prometheus' API, once it is ready; only containers can reach it."""
        program = _ASK_PROMETHEUS.format(paths=paths)
        return [answer["data"] for answer in json.loads(self.python("cleanup", program))]

    @property
    def url(self) -> str:
        return f"wss://localhost:{self.environment['ANTIPHON_HTTPS_PORT']}"

    @property
    def trust(self) -> ssl.SSLContext:
        """Trusts only certificates that Caddy's own authority has signed."""
        root = self("exec", "caddy", "cat", "/data/caddy/pki/authorities/local/root.crt")
        return ssl.create_default_context(cadata=root)

    def get(self, path: str) -> Any:
        """JSON from the load balancer."""
        url = self.url.replace("wss", "https") + path
        with urllib.request.urlopen(url, context=self.trust, timeout=WITHIN_S) as answer:
            return json.loads(answer.read())


def stack_of(engine: dict[str, str], project: str, **variables: str) -> Compose:
    """A stack of the compose file, on two free ports of this machine. Starts nothing."""
    ports = {"ANTIPHON_HTTP_PORT": str(free_port()), "ANTIPHON_HTTPS_PORT": str(free_port())}
    ports["ANTIPHON_API_KEYS_FILE"] = "./deploy/api_keys_everyone"
    return Compose(ROOT, {**engine, **ports, "COMPOSE_PROJECT_NAME": project, **variables})


async def eventually(condition: Callable[[], object]) -> None:
    """Waits for it in a thread: Docker takes long to answer, and a client answers pings meanwhile."""
    await until(lambda: asyncio.to_thread(condition), within_s=WITHIN_S)
