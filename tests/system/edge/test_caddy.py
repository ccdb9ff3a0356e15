"""The load balancer of the compose stack: Debian's Caddy with `deploy/Caddyfile`, in front of an edge."""

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from support.chromium import in_ci
from support.dashboards import DEPLOY
from support.edge_harness import RunningEdge
from support.ports import free_port

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(
        shutil.which("caddy") is None and not in_ci(), reason="needs Debian's package caddy"
    ),
]

NAMES = ("antiphon.local", "localhost", "app.localhost", "127.0.0.1")
"""Caddy's own authority signs certificates for these."""
HSTS = "Strict-Transport-Security"
WITHIN_S = 60.0


@dataclass(frozen=True)
class Caddy:
    https: int
    http: int
    root: Path

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=str(self.root)), timeout=WITHIN_S
        )

    async def get(self, name: str, path: str) -> httpx.Response:
        """The name is that of the URL, and of the certificate."""
        host = f"{name}:{self.https}"
        async with self.client() as client:
            return await client.get(
                f"https://127.0.0.1:{self.https}{path}",
                headers={"Host": host},
                extensions={} if name == "127.0.0.1" else {"sni_hostname": name},
            )


def configuration(edge: RunningEdge, http: int) -> str:
    """The Caddyfile with ports of this machine. The certificates are trusted by nobody else."""
    text = (DEPLOY / "Caddyfile").read_text()
    start = text.index("\t\tdynamic a {")
    end = text.index("\t\t}\n", start) + len("\t\t}\n")
    text = f"{text[:start]}\t\tto {edge.url.removeprefix('http://')}\n{text[end:]}"
    for own, local in {
        "\tadmin off\n": "\tadmin off\n\tskip_install_trust\n",
        "http:// {": f"http://:{http} {{",
    }.items():
        assert text.count(own) == 1
        text = text.replace(own, local)
    return text


@asynccontextmanager
async def running_caddy(edge: RunningEdge, folder: Path) -> AsyncIterator[Caddy]:
    data = folder / "data"
    root = data / "caddy/pki/authorities/local/root.crt"
    caddy = Caddy(free_port(), free_port(), root)
    file = folder / "Caddyfile"
    file.write_text(configuration(edge, caddy.http))
    environment = {
        **os.environ,
        "ANTIPHON_SITE": ", ".join(f"{name}:{caddy.https}" for name in NAMES),
        "ANTIPHON_HTTPS_AT": f":{caddy.https}",
        "XDG_DATA_HOME": str(data),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    log = folder / "caddy.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("caddy", "run", "--config", str(file), "--adapter", "caddyfile"),
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(WITHIN_S):
            while not await _answers(caddy):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
        yield caddy
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answers(caddy: Caddy) -> bool:
    if not caddy.root.exists():
        return False
    try:
        for name in NAMES:  # each has a certificate
            await caddy.get(name, "/health")
    except httpx.TransportError:
        return False
    return True


async def test_a_browser_uses_https_for_a_domain_and_is_not_told_so_for_this_machine(
    edge: RunningEdge, tmp_path: Path
) -> None:
    async with running_caddy(edge, tmp_path) as caddy:
        for path, status in {"/health": 200, "/metrics": 404}.items():
            found = {}
            for name in NAMES:
                answer = await caddy.get(name, path)
                assert answer.status_code == status
                found[name] = answer.headers.get_list(HSTS)
            assert found.pop("antiphon.local") == ["max-age=31536000"]
            assert not any(found.values()), found


async def test_plain_http_is_redirected_and_cannot_set_hsts(
    edge: RunningEdge, tmp_path: Path
) -> None:
    async with running_caddy(edge, tmp_path) as caddy, caddy.client() as client:
        url = f"http://127.0.0.1:{caddy.http}/omni?a=1"
        answer = await client.get(url, headers={"Host": "antiphon.local"})
        assert answer.status_code == 308
        assert answer.headers["Location"] == f"https://antiphon.local:{caddy.https}/omni?a=1"
        assert HSTS not in answer.headers
