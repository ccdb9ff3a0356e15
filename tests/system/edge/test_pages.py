"""The web pages over HTTP: content, caching and security headers."""

import gzip
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.middleware.gzip import GZipResponder

from antiphon.broker.settings import BrokerSettings
from antiphon.edge import app
from antiphon.edge.routes.stored import LARGE_BYTES
from support.edge_harness import RunningEdge, running_edge
from support.redis_server import RedisServer

PAGES = {
    "/": "index",
    "/turnbased": "turnbased",
    "/half_duplex": "half_duplex",
    "/omni": "omni",
    "/audio_duplex": "audio_duplex",
    "/admin": "admin",
    "/s/adx_1_0123456789abcdef": "session-viewer",
}

ICON = '<link rel="icon" href="./favicon.svg" />'


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "static").mkdir()
    for name in (*PAGES.values(), "notice", "not_found"):
        (tmp_path / f"{name}.html").write_text(f"<title>{name}</title>{ICON}")
    (tmp_path / "index.html.br").write_bytes(b"compressed")
    (tmp_path / "admin.html.gz").write_bytes(gzip.compress(b"compressed"))
    (tmp_path / "static" / "app-1a2b.js").write_text("export {};")
    (tmp_path / "static" / "large-1a2b.js").write_text("export const a = 1;" * 200)
    (tmp_path / "favicon.svg").write_text("<svg/>")
    return tmp_path


@pytest.fixture
async def edge(settings: BrokerSettings, built: Path) -> AsyncIterator[RunningEdge]:
    async with running_edge(settings, pages_dir=built) as running:
        yield running


@pytest.fixture
async def http(edge: RunningEdge) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=edge.url, headers={"Accept-Encoding": "identity"}
    ) as client:
        yield client


async def test_every_page_has_a_path(http: httpx.AsyncClient) -> None:
    for path, name in PAGES.items():
        answer = await http.get(path)
        assert (answer.status_code, f"<title>{name}</title>" in answer.text) == (200, True), path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        head = await http.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-length"] == answer.headers["content-length"]


LOCATIONS = {
    **dict.fromkeys(("/mobile", "/mobile-omni"), (302, "./omni")),
    **dict.fromkeys(("/mobile/", "/mobile-omni/"), (302, "../omni")),
    "/omni/": (307, "../omni"),
    "/omni//?preset=a%20b": (307, "../../omni?preset=a%20b"),
    "/s/one:two/": (307, "../../s/one%3Atwo"),
    "/api/apps/": (307, "../../api/apps"),
    "/static": (307, "./static/"),
    "//127.0.0.1/omni/": (404, None),
}


async def test_other_paths_redirect_below_any_path_of_a_proxy(
    http: httpx.AsyncClient, edge: RunningEdge
) -> None:
    for path, expected in LOCATIONS.items():
        answer = await http.get(edge.url + path)
        assert (answer.status_code, answer.headers.get("location")) == expected, path


async def test_addresses_of_a_page_fit_the_depth_of_its_path(
    http: httpx.AsyncClient, edge: RunningEdge
) -> None:
    """Below any path of a proxy. An encoded slash is none for a browser."""
    depths = {"/": "./", "/s/adx_1": "../", "/a/b/": "../../", "//a": "../", "/a%2Fb": "./"}
    for path, home in depths.items():
        text = (await http.get(edge.url + path, headers=BROWSER)).text
        assert f'href="{home}favicon.svg"' in text, path


async def test_cache_headers(http: httpx.AsyncClient) -> None:
    page, part = await http.get("/"), await http.get("/static/app-1a2b.js")
    assert page.headers["cache-control"] == "no-cache"
    assert part.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert part.headers["content-type"].startswith("text/javascript")
    again = await http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_no_request_reads_or_compresses_a_file_or_describes_the_api(
    http: httpx.AsyncClient, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each of the requests that arrive together does it."""

    def refused(*_: object, **__: object) -> bytes:
        raise AssertionError("done for this request")

    monkeypatch.setattr(GZipResponder, "apply_compression", refused)
    monkeypatch.setattr(app, "get_openapi", refused)
    shutil.rmtree(built)
    for path in ("/static/large-1a2b.js", "/openapi.json", "/v1/realtime/schema.json"):
        plain = await http.get(path)
        for _ in range(2):
            packed = await http.get(path, headers={"Accept-Encoding": "gzip"})
            assert packed.headers["content-encoding"] == "gzip", path
            assert packed.headers["vary"] == "Accept-Encoding"
            assert packed.content == plain.content
        assert len(plain.content) > LARGE_BYTES


async def test_security_headers(http: httpx.AsyncClient) -> None:
    headers = (await http.get("/omni")).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert "microphone=(self)" in headers["permissions-policy"]


async def test_other_files_are_not_found(http: httpx.AsyncClient) -> None:
    for path in ("none.js", "../index.html", "%2e%2e/index.html", ""):
        assert (await http.get(f"/static/{path}")).status_code == 404, path


async def test_a_disabled_page_shows_a_notice(http: httpx.AsyncClient) -> None:
    await http.put("/api/admin/apps/omni", json={"enabled": False})
    answer = await http.get("/omni")
    assert (answer.status_code, "<title>notice</title>" in answer.text) == (403, True)
    assert (await http.get("/audio_duplex")).status_code == 200
    await http.put("/api/admin/apps/omni", json={"enabled": True})
    assert (await http.get("/omni")).status_code == 200


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def test_a_browser_gets_a_page_for_an_unknown_path(http: httpx.AsyncClient) -> None:
    for path in ("/nowhere", "/omni/more", "/s/one/two", "/apidocs", "/v2/"):
        answer = await http.get(path, headers=BROWSER)
        assert (answer.status_code, "<title>not_found</title>" in answer.text) == (404, True), path
        assert answer.headers["vary"] == "Accept, Accept-Encoding"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        head = await http.head(path, headers=BROWSER)
        assert (head.status_code, head.content) == (404, b""), path


async def test_other_clients_and_paths_get_a_problem(http: httpx.AsyncClient) -> None:
    for method, path, accept in (
        ("GET", "/nowhere", "*/*"),
        ("GET", "/nowhere", "application/json"),
        ("POST", "/nowhere", BROWSER["Accept"]),
        ("GET", "/api/nowhere", BROWSER["Accept"]),
        ("GET", "/v1/nowhere", BROWSER["Accept"]),
        ("GET", "/ws/nowhere", BROWSER["Accept"]),
        ("GET", "/s/one/meta.json", BROWSER["Accept"]),
    ):
        answer = await http.request(method, path, headers={"Accept": accept})
        said = answer.json()
        problem = said["error"] if path.startswith("/v1/") else said
        assert (answer.status_code, problem["code"]) == (404, "not_found"), (method, path, accept)


async def test_pages_need_no_key(settings: BrokerSettings, built: Path) -> None:
    keys = ("a-key-that-is-long-enough",)
    async with (
        running_edge(settings, pages_dir=built, api_keys=keys) as edge,
        edge.http() as client,
    ):
        assert (await client.get("/admin")).status_code == 200
        assert (await client.get("/api/apps")).status_code == 401


async def test_pages_work_without_redis(redis_server: RedisServer, built: Path) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with running_edge(settings, pages_dir=built) as edge, edge.http() as client:
        redis_server.stop()
        assert (await client.get("/omni")).status_code == 200
        redis_server.start()


async def test_without_a_build_the_edge_explains_how_to_build(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    async with running_edge(settings, pages_dir=tmp_path / "none") as edge, edge.http() as client:
        answer = await client.get("/")
        assert (answer.status_code, "make web" in answer.text) == (503, True)
        unknown = await client.get("/nowhere", headers=BROWSER)
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
        assert (await client.get("/api/apps")).status_code == 200
