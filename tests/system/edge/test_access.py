"""Keys, origins and limits of a running edge."""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import structlog
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import CannotConnect
from antiphon.shared_schemas.states import SessionState
from support.edge_harness import RunningEdge, played_worker, running_edge
from support.stack import until

KEY, OTHER, TOKEN = "client-key-0123456789", "client-key-9876543210", "admin-token-0123456789"
SOCKETS = (
    *("/ws/duplex/adx_1", "/ws/half_duplex/hd_1", "/ws/chat"),
    *("/v1/realtime?mode=audio", "/v1/realtime?mode=video"),
)
KEY_PROTOCOL = "antiphon.key." + base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("=")


@asynccontextmanager
async def guarded(
    settings: BrokerSettings, **overrides: Any
) -> AsyncIterator[tuple[RunningEdge, httpx.AsyncClient]]:
    async with running_edge(settings, **overrides) as edge, edge.http() as http:
        yield edge, http


async def refusal(edge: RunningEdge, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as refused:
        async with edge.open(path, **options):
            pass
    return _problem(refused.value)


def _problem(refused: InvalidStatus) -> tuple[int, dict[str, Any]]:
    response = refused.response
    return response.status_code, orjson.loads(bytes(response.body or b"{}"))


@pytest.mark.parametrize(
    ("options", "warns"),
    [({}, False), ({"host": "0.0.0.0"}, True), ({"host": "0.0.0.0", "api_keys": [KEY]}, False)],
)
async def test_an_edge_that_everyone_can_use_logs_a_warning(
    settings: BrokerSettings, options: dict[str, Any], *, warns: bool
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with running_edge(settings, **options):
            pass
    assert ("edge_without_keys" in {entry["event"] for entry in logs}) is warns


async def test_the_python_client_sends_its_key(settings: BrokerSettings) -> None:
    async with guarded(settings, api_keys=[KEY]) as (edge, _):
        with pytest.raises(CannotConnect, match="401"):
            async with connect_duplex(edge.url):
                pass
        async with connect_duplex(edge.url, api_key=KEY) as session:
            assert session.session_id


async def test_sockets_need_a_key(settings: BrokerSettings) -> None:
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"additional_headers": {"X-Api-Key": "x" * 20}},
        {"subprotocols": [Subprotocol("antiphon.v1")]},
    )
    async with guarded(settings, api_keys=[KEY]) as (edge, _):
        for path, options in product(SOCKETS, ways):
            status, problem = await refusal(edge, path, **options)
            assert (status, problem["code"]) == (401, "unauthorized")
            assert problem["message"] == problem["error"]
            status, _ = await refusal(edge, f"{path}{'&' if '?' in path else '?'}api_key={KEY}")
            assert status == 401


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": {"Authorization": f"Bearer {KEY}"}},
        {"additional_headers": {"X-Api-Key": KEY}},
        {"subprotocols": [Subprotocol("antiphon.v1"), Subprotocol(KEY_PROTOCOL)]},
    ],
)
async def test_a_key_opens_a_socket_and_is_never_returned(
    settings: BrokerSettings, broker: Broker, options: dict[str, Any]
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with (
            guarded(settings, api_keys=[KEY]) as (edge, _),
            played_worker(broker) as worker,
            edge.client("adx_1", **options) as client,
        ):
            assert client.socket.subprotocol == (
                "antiphon.v1" if "subprotocols" in options else None
            )
            assert client.socket.response is not None
            assert KEY_PROTOCOL not in str(client.socket.response.headers)
            await worker.claim()
            await client.expect("queue_done")
            await client.send("stop")
    assert logs
    assert KEY not in str(logs)
    assert KEY_PROTOCOL not in str(logs)


async def test_requests_need_a_key_except_health_and_documentation(
    settings: BrokerSettings,
) -> None:
    async with guarded(settings, api_keys=[KEY]) as (_, http):
        for path in ("/health", "/docs", "/openapi.json"):
            assert (await http.get(path)).status_code == 200
        document = (await http.get("/openapi.json")).json()
        seen = 0
        for path, operations in document["paths"].items():
            if path == "/health":
                continue
            for method in operations:
                url = path.replace("{", "").replace("}", "")
                answer = await http.request(method, url, json={})
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
                said = answer.json()
                problem = said["error"] if isinstance(said.get("error"), dict) else said  # OpenAI's
                assert problem["code"] in ("unauthorized", "invalid_api_key")
                seen += 1
        assert seen >= 18
        good = await http.get("/api/apps", headers={"Authorization": f"Bearer {KEY}"})
        assert good.status_code == 200
        schemes = document["components"]["securitySchemes"]
        assert set(schemes) == {"key", "admin"}


ADMINISTERED = (
    ("GET", "/api/admin/apps", None),
    ("PUT", "/api/admin/apps/omni", {"enabled": True}),
    ("PUT", "/api/config/eta", {}),
    ("DELETE", "/api/queue/1", None),
)


async def test_admin_routes_need_the_token(settings: BrokerSettings) -> None:
    async with guarded(settings, api_keys=[KEY], admin_token=TOKEN) as (_, http):
        for method, path, body in ADMINISTERED:
            for key, status in ((None, 401), (KEY, 401), (TOKEN, 200)):
                headers = {"X-Api-Key": key} if key else {}
                answer = await http.request(method, path, json=body, headers=headers)
                assert answer.status_code == status, path
        assert (await http.get("/status", headers={"X-Api-Key": TOKEN})).status_code == 200


async def test_admin_routes_without_a_token(settings: BrokerSettings) -> None:
    async with guarded(settings) as (_, http):
        for method, path, body in ADMINISTERED:
            assert (await http.request(method, path, json=body)).status_code == 200, path
            bent = await http.request(method, path, json=body, headers={"Host": "evil.example"})
            assert (bent.status_code, bent.json()["code"]) == (403, "host_not_allowed")
    async with running_edge(settings, host="0.0.0.0") as edge:
        url = edge.url.replace("0.0.0.0", "127.0.0.1")
        async with httpx.AsyncClient(base_url=url) as http:
            for method, path, body in ADMINISTERED:
                answer = await http.request(method, path, json=body)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert (await http.get("/status")).status_code == 200


async def test_foreign_pages_are_rejected(
    settings: BrokerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(settings) as (edge, http):
        for path in SOCKETS:
            for origin in ("https://evil.example", "null", edge.url + "0"):
                status, problem = await refusal(edge, path, origin=Origin(origin))
                assert (status, problem["code"]) == (403, "origin_not_allowed")
            async with edge.open(path, origin=Origin(edge.url)):
                pass
        refused = await http.get("/status", headers={"Origin": "https://evil.example"})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    assert not caplog.records, "a refusal is not logged as a server error"


async def test_pages_whose_name_points_at_this_machine_are_rejected(
    settings: BrokerSettings,
) -> None:
    async with guarded(settings) as (_, http):
        name = f"evil.example:{http.base_url.port}"
        for path in SOCKETS:
            with pytest.raises(InvalidStatus) as refused:
                await connect(
                    f"ws://{name}{path}",
                    host="127.0.0.1",
                    proxy=None,
                    origin=Origin(f"http://{name}"),
                )
            status, problem = _problem(refused.value)
            assert (status, problem["code"]) == (403, "host_not_allowed")
        answer = await http.get("/sessions", headers={"Host": name})
        assert (answer.status_code, answer.json()["code"]) == (403, "host_not_allowed")
        assert "allowed_hosts" in answer.json()["message"]


async def test_allowed_origins(settings: BrokerSettings) -> None:
    page = "https://app.example"
    async with guarded(settings, allowed_origins=[page], api_keys=[KEY]) as (edge, http):
        asked = {
            "Origin": page,
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "X-Api-Key",
        }
        preflight = await http.options("/api/config/eta", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == page
        answer = await http.get("/status", headers={"Origin": page, "X-Api-Key": KEY})
        assert answer.headers["access-control-allow-origin"] == page
        refused = await http.get("/status", headers={"Origin": page})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, page)
        headers = {"X-Api-Key": KEY}
        async with edge.client("adx_1", origin=Origin(page), additional_headers=headers):
            pass


_OF_SDKS = (
    *("authorization", "content-type", "user-agent", "openai-organization", "openai-project"),
    *("x-stainless-arch", "x-stainless-retry-count", "x-stainless-timeout", "idempotency-key"),
    "x-of-the-next-version",
)


async def test_sdks_in_pages_of_allowed_origins_send_headers_of_their_own(
    settings: BrokerSettings,
) -> None:
    page = "https://app.example"
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ",".join(_OF_SDKS),
    }
    async with guarded(settings, allowed_origins=[page]) as (_, http):
        path = "/v1/chat/completions"
        preflight = await http.options(path, headers={**asked, "Origin": page})
        allowed = preflight.headers["access-control-allow-headers"].split(",")
        assert (preflight.status_code, {name.strip() for name in allowed}) == (200, set(_OF_SDKS))
        assert preflight.headers["access-control-allow-origin"] == page
        foreign = await http.options(path, headers={**asked, "Origin": "https://evil.example"})
        assert foreign.status_code in (400, 403)
        assert "access-control-allow-origin" not in foreign.headers
        answer = await http.get("/v1/models", headers={"Origin": page})
        exposed = answer.headers["access-control-expose-headers"]
        assert {name.strip() for name in exposed.split(",")} == {"Location", "Retry-After"}


async def test_the_public_name_behind_a_proxy_is_the_same_origin(settings: BrokerSettings) -> None:
    page, public = Origin("https://talk.example"), {"X-Forwarded-Host": "talk.example"}
    async with guarded(settings) as (edge, _):
        status, _ = await refusal(edge, "/ws/chat", origin=page, additional_headers=public)
        assert status == 403
    async with (
        guarded(settings, trusted_proxies=["127.0.0.1"]) as (edge, _),
        edge.open("/ws/chat", origin=page, additional_headers=public),
    ):
        pass


FROM_AFAR = {"X-Forwarded-For": "203.0.113.5"}


async def test_open_connections_of_one_address(
    settings: BrokerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"trusted_proxies": ["127.0.0.1"], "max_sockets_per_address": 2}
    async with guarded(settings, **limits) as (edge, _), AsyncExitStack() as held:
        for number in range(2):
            client = f"/ws/duplex/adx_held{number}"
            await held.enter_async_context(edge.open(client, additional_headers=FROM_AFAR))
        for path in SOCKETS:
            async with edge.open(path, additional_headers=FROM_AFAR) as client_:
                error = await client_.expect("error")
                assert "2 connections at once" in str(error)
                assert await client_.close_code() == 1013
        other = {"X-Forwarded-For": "203.0.113.6"}
        for headers in (other, {}):
            async with edge.open("/ws/chat", additional_headers=headers) as client_:
                await client_.socket.ping()
    assert not caplog.records


async def test_new_connections_per_minute(settings: BrokerSettings) -> None:
    limits = {"trusted_proxies": ["127.0.0.1"], "max_connects_per_minute": 3}
    async with guarded(settings, **limits) as (edge, http):
        for _ in range(3):
            async with edge.open("/ws/chat", additional_headers=FROM_AFAR) as client:
                await client.socket.send("no JSON")
                await client.expect_error("invalid_json")
                assert await client.close_code() == 1003
        async with edge.open("/ws/chat", additional_headers=FROM_AFAR) as client:
            await client.expect_error("rate_limited")
            assert await client.close_code() == 1013
        for path in ("/api/chat", "/api/assets/ref_audio"):
            body = {"name": "x", "audio_base64": "AAAA", "messages": []}
            answer = await http.post(path, json=body, headers=FROM_AFAR)
            assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited"), path
            assert answer.headers["retry-after"]
        assert (await http.get("/status", headers=FROM_AFAR)).status_code == 200


LISTINGS = ("/status", "/sessions", "/api/queue", "/workers")


async def test_only_administrators_see_ids_of_sessions(
    settings: BrokerSettings, broker: Broker
) -> None:
    keys = {"api_keys": [KEY], "admin_token": TOKEN}
    async with guarded(settings, **keys) as (edge, http), played_worker(broker) as worker:
        headers = {"X-Api-Key": KEY}
        async with edge.client("adx_running", additional_headers=headers):
            await worker.claim()
            async with edge.client("adx_waiting", additional_headers=headers) as waiting:
                await waiting.expect("queued")
                for path in LISTINGS:
                    seen = (await http.get(path, headers=headers)).text
                    assert "adx_" not in seen, path
                    assert "hidden" in seen, path
                    full = await http.get(path, headers={"X-Api-Key": TOKEN})
                    assert "adx_running" in full.text


async def test_another_client_cannot_stop_a_half_duplex_answer(
    settings: BrokerSettings, broker: Broker
) -> None:
    keys = {"api_keys": [KEY], "admin_token": TOKEN}
    async with guarded(settings, **keys) as (edge, http), played_worker(broker) as worker:
        path, headers = "/ws/half_duplex/hd_bob", {"X-Api-Key": KEY}
        async with edge.open(path, additional_headers=headers) as client:
            assert client.socket.response is not None
            cookie = client.socket.response.headers["Set-Cookie"].partition(";")[0]
            session = await worker.claim()
            await session.move(SessionState.PREPARING)
            await session.move(SessionState.ACTIVE)
            for own, expected in (
                ({}, False),
                ({"Cookie": "antiphon_client=" + "x" * 32}, False),
                ({"Cookie": cookie}, True),
                ({"X-Api-Key": TOKEN}, True),
            ):
                answer = await http.post(
                    "/api/half_duplex/stop",
                    json={"session_id": "hd_bob"},
                    headers={**headers, **own},
                )
                assert answer.json()["success"] is expected, own


async def test_a_browser_without_cookies_can_stop_its_half_duplex_answer(
    settings: BrokerSettings, broker: Broker
) -> None:
    secret = "Secret-_" * 4
    keys = {"api_keys": [KEY], "admin_token": TOKEN}
    async with guarded(settings, **keys) as (edge, http), played_worker(broker) as worker:
        headers = {"X-Api-Key": KEY}
        offer = {"subprotocols": [f"antiphon.client.{secret}"], "additional_headers": headers}
        async with edge.open("/ws/half_duplex/hd_bob", **offer) as client:
            assert client.socket.response is not None
            assert "Set-Cookie" not in client.socket.response.headers
            session = await worker.claim()
            await session.move(SessionState.PREPARING)
            await session.move(SessionState.ACTIVE)
            for own, expected in (("", False), (secret.lower(), False), (secret, True)):
                body = {"session_id": "hd_bob", "client_secret": own}
                answer = await http.post("/api/half_duplex/stop", json=body, headers=headers)
                assert answer.json()["success"] is expected, own


async def test_cookies_are_secure_behind_a_proxy_with_tls(settings: BrokerSettings) -> None:
    async with guarded(settings, trusted_proxies=["127.0.0.1"]) as (edge, _):
        for proto, secure in (("https", True), ("http", False)):
            headers = {"X-Forwarded-Proto": proto}
            async with edge.open("/ws/half_duplex/hd_1", additional_headers=headers) as client:
                assert client.socket.response is not None
                assert ("Secure" in client.socket.response.headers["Set-Cookie"]) is secure


async def test_sessions_of_one_key_are_limited_on_all_edges(settings: BrokerSettings) -> None:
    limits = {"api_keys": [KEY, OTHER], "max_sessions_per_client": 2}
    async with guarded(settings, **limits) as (edge, http), running_edge(settings, **limits) as two:
        mine, other = {"X-Api-Key": KEY}, {"X-Api-Key": OTHER}
        async with (
            edge.client("adx_1", additional_headers=mine) as first,
            two.client("adx_2", additional_headers=mine) as second,
        ):
            for client in (first, second):
                await client.expect("queued")
            async with two.client("adx_3", additional_headers=mine) as third:
                error = await third.expect_error("rate_limited")
                assert error["retryable"] is True
                assert "2 sessions" in error["message"]
            chat = {"messages": [{"role": "user", "content": "Hello"}]}
            assert (await http.post("/api/chat", json=chat, headers=mine)).status_code == 429
            async with two.client("adx_4", additional_headers=other) as fourth:
                await fourth.expect("queued")
            await first.send("stop")
            await first.expect("stopped", skip=("queue_update",))

            async def has_room() -> bool:
                async with edge.client("adx_5", additional_headers=mine) as fifth:
                    return bool((await fifth.message())["type"] == "queued")

            await until(has_room)


async def test_sessions_of_one_address_are_limited_without_keys(settings: BrokerSettings) -> None:
    limits = {"max_sessions_per_client": 1, "trusted_proxies": ["127.0.0.1"]}
    async with (
        guarded(settings, **limits) as (edge, _),
        edge.client("adx_1", additional_headers=FROM_AFAR) as first,
    ):
        await first.expect("queued")
        async with edge.client("adx_2", additional_headers=FROM_AFAR) as second:
            await second.expect_error("rate_limited")
        async with edge.client("adx_3") as local:
            await local.expect("queued")


async def test_changes_of_the_key_file_apply_without_a_restart(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text(KEY)

    async def accepted(http: httpx.AsyncClient, key: str) -> bool:
        answer = await http.get("/status", headers={"X-Api-Key": key})
        return answer.status_code == 200

    async with guarded(settings, api_keys_file=file) as (_, http):
        assert [await accepted(http, key) for key in (KEY, OTHER, "")] == [True, False, False]
        with structlog.testing.capture_logs() as logs:
            file.write_text("")
            await until(lambda: "keys_not_reloaded" in {entry["event"] for entry in logs})
        assert [await accepted(http, key) for key in (KEY, OTHER, "")] == [True, False, False]
        file.write_text(OTHER)
        await until(lambda: accepted(http, OTHER))
        assert [await accepted(http, key) for key in (KEY, "")] == [False, False]
        file.write_text("*")
        await until(lambda: accepted(http, ""))
