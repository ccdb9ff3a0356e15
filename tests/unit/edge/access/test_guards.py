"""Keys, the admin token, and the guards of all routes."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from starlette.requests import HTTPConnection

from antiphon.broker.settings import CONFIG_STATUS, InvalidSettings
from antiphon.edge.__main__ import main
from antiphon.edge.access.client_secrets import ClientSecret
from antiphon.edge.access.guards import ADMIN, CLIENT, READER, TWILIO, AccessPolicy, signature_of
from antiphon.edge.app import create_app
from antiphon.edge.errors import HttpError
from antiphon.edge.settings import EdgeSettings

KEY, OTHER, TOKEN = "client-key-0123456789", "client-key-9876543210", "admin-token-0123456789"
GUARDS = (CLIENT, READER, ADMIN, TWILIO)
TWILIO_PATH = "/twilio/media"
SOCKETS = {
    "/ws/duplex/{session_id:path}",
    "/ws/half_duplex/{session_id:path}",
    "/ws/chat",
    "/v1/realtime",
    "/v1/live/sessions",
    "/openai/v1/live/sessions",
    *("/openai/v1/realtime", "/realtime", "/openai/realtime"),
    TWILIO_PATH,
}
PUBLIC = {
    *("/health", "/docs", "/openapi.json"),
    *("/", "/turnbased", "/half_duplex", "/omni", "/audio_duplex", "/admin", "/s/{recording_id}"),
    *(
        "/mobile",
        "/mobile/",
        "/mobile-omni",
        "/mobile-omni/",
        "/static/{name:path}",
    ),
    *("/favicon.svg", "/manifest.webmanifest", "/apple-touch-icon.png", "/licenses.md"),
    *("/icon-192.png", "/icon-512.png"),
}


def access(host: str = "127.0.0.1", **settings: Any) -> AccessPolicy:
    return AccessPolicy(EdgeSettings(**settings), host)


def connection(
    peer: str = "127.0.0.1",
    protocols: tuple[str, ...] = (),
    http_version: str = "1.1",
    **headers: str,
) -> HTTPConnection:
    named = {"host": "localhost:8006", **headers}
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in named.items() if v]
    scope = {"type": "websocket", "http_version": http_version, "client": (peer, 1)}
    return HTTPConnection({**scope, "headers": pairs, "subprotocols": protocols})


def status(check: Any, *args: Any, **named: Any) -> int:
    try:
        check(connection(*args, **named))
    except HttpError as refusal:
        return refusal.status_code
    return 200


def key_protocol(key: str, *, padded: bool = False) -> str:
    text = base64.urlsafe_b64encode(key.encode()).decode()
    return "antiphon.key." + (text if padded else text.rstrip("="))


WAYS = {
    "bearer": {"authorization": f"Bearer {KEY}"},
    "bearer in small letters": {"authorization": f"bearer  {KEY}"},
    "header": {"x_api_key": KEY},
    "subprotocol": {"protocols": ("antiphon.v1", key_protocol(KEY))},
    "padded subprotocol": {"protocols": (key_protocol(KEY, padded=True),)},
    "one of two": {"x_api_key": KEY, "authorization": "Bearer nonsense"},
    "the other key": {"x_api_key": OTHER},
    "the admin token": {"x_api_key": TOKEN},
}
NO_WAYS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "empty": {"authorization": "Bearer "},
    "another scheme": {"authorization": f"Basic {KEY}"},
    "no scheme": {"authorization": KEY},
    "wrong": {"x_api_key": KEY + "x"},
    "shorter": {"x_api_key": KEY[:-1]},
    "cookie": {"cookie": f"key={KEY}"},
    "not base64": {"protocols": ("antiphon.key.%%%", "antiphon.key.", "antiphon.key.a")},
    "not text": {"protocols": ("antiphon.key._w",)},
    "another protocol": {"protocols": (KEY,)},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_ways_to_send_a_key(way: dict[str, Any]) -> None:
    rules = access(api_keys=[KEY, OTHER], admin_token=TOKEN)
    assert status(rules.check_client, **way) == 200


@pytest.mark.parametrize("way", NO_WAYS.values(), ids=NO_WAYS)
def test_invalid_keys(way: dict[str, Any]) -> None:
    rules = access(api_keys=[KEY, OTHER], admin_token=TOKEN)
    assert status(rules.check_client, **way) == 401
    assert status(rules.check_admin, **way) == 401


def test_without_keys_every_client_has_access() -> None:
    assert status(access().check_client, "203.0.113.5") == 200
    assert status(access(admin_token=TOKEN).check_client, "203.0.113.5") == 200


def test_origins_are_checked_before_keys() -> None:
    rules = access(api_keys=[KEY])
    foreign = {"origin": "https://evil.example", "x_api_key": KEY}
    assert status(rules.check_client, **foreign) == 403
    assert status(rules.check_client, origin="http://localhost:8006", x_api_key=KEY) == 200


def test_a_client_key_is_not_an_admin_token() -> None:
    rules = access(api_keys=[KEY], admin_token=TOKEN)
    assert status(rules.check_admin, x_api_key=KEY) == 401
    assert status(rules.check_admin, authorization=f"Bearer {TOKEN}") == 200
    assert status(access(admin_token=TOKEN).check_admin) == 401


LOCAL: dict[str, tuple[str, dict[str, Any], int]] = {
    "from here": ("127.0.0.1", {}, 200),
    "over v6": ("::1", {"peer": "::1", "host": "[::1]:8006"}, 200),
    "edge on all addresses": ("0.0.0.0", {}, 403),
    "from elsewhere": ("127.0.0.1", {"peer": "10.0.0.5"}, 403),
    "through a proxy": ("127.0.0.1", {"x_forwarded_for": "203.0.113.5"}, 403),
    "through a proxy that claims loopback": ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, 403),
    "through a tunnel": ("127.0.0.1", {"cf_connecting_ip": "203.0.113.5"}, 403),
    "through a proxy that adds no header": ("127.0.0.1", {"http_version": "1.0"}, 403),
    "a name bent to loopback": ("127.0.0.1", {"host": "evil.example:8006"}, 403),
    "no name": ("127.0.0.1", {"host": ""}, 403),
}


@pytest.mark.parametrize(("host", "call", "expected"), LOCAL.values(), ids=LOCAL)
def test_admin_without_a_token(host: str, call: dict[str, Any], expected: int) -> None:
    assert status(access(host).check_admin, **call) == expected


def test_admin_on_loopback_needs_a_key_if_keys_are_set() -> None:
    rules = access(api_keys=[KEY])
    assert status(rules.check_admin) == 401
    assert status(rules.check_admin, x_api_key=KEY) == 200


def test_loopback_has_no_rate_limit_key() -> None:
    assert access().client_limit_key(connection("127.0.0.1")) is None
    assert access().client_limit_key(connection("203.0.113.5")) == "203.0.113.5"
    behind = access(trusted_proxies="127.0.0.1")
    assert (
        behind.client_limit_key(connection("127.0.0.1", x_forwarded_for="203.0.113.5"))
        == "203.0.113.5"
    )


def test_keys_from_files(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n{KEY}\n\n{OTHER}  # theirs\n")
    (tmp_path / "admin").write_text(TOKEN + "\n")
    rules = access(api_keys_file=tmp_path / "keys", admin_token_file=tmp_path / "admin")
    (tmp_path / "hash").write_text(f"{KEY}#staple\n")
    hashed = access(api_keys_file=tmp_path / "hash")
    assert [status(hashed.check_client, x_api_key=key) for key in (f"{KEY}#staple", KEY)] == [
        200,
        401,
    ]
    assert [status(rules.check_client, x_api_key=key) for key in (KEY, OTHER)] == [200, 200]
    assert status(rules.check_admin, x_api_key=TOKEN) == 200
    (tmp_path / "keys").write_text("# none yet\n")
    with pytest.raises(ValueError, match="has no key"):
        access(api_keys_file=tmp_path / "keys")
    (tmp_path / "keys").write_text(f"*\n{KEY}\n")
    with pytest.raises(ValueError, match="16 to 256"):
        access(api_keys_file=tmp_path / "keys")
    (tmp_path / "keys").write_text("# everyone\n*\n")
    assert status(access(api_keys_file=tmp_path / "keys").check_client) == 200
    with pytest.raises(InvalidSettings, match="missing cannot be read"):
        access(api_keys_file=tmp_path / "missing")


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEYS", f"{KEY}, {OTHER}")
    monkeypatch.setenv("ANTIPHON_ALLOWED_ORIGINS", "https://a.example")
    settings = EdgeSettings()
    assert settings.client_keys() == [KEY, OTHER]
    assert settings.allowed_origins == ("https://a.example",)


def test_errors_and_logs_contain_no_key() -> None:
    settings = EdgeSettings(api_keys=[KEY], admin_token=TOKEN)
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert KEY not in text
        assert TOKEN not in text


@pytest.mark.parametrize("bad", [{"api_keys": ["short"]}, {"admin_token": "with spaces in it, 22"}])
def test_invalid_key_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match="16 to 256") as refused:
        EdgeSettings(**bad)
    assert "with spaces" not in str(refused.value).replace("without spaces", "")


@pytest.mark.parametrize(
    "bad", [{"allowed_origins": ["app.example"]}, {"trusted_proxies": ["proxy.example"]}]
)
def test_invalid_access_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        access(**bad)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEYS", "too-short-but-secret"[:15]),
        ("TRUSTED_PROXIES", "proxy.example"),
        ("API_KEYS_FILE", "/does/not/exist"),
    ],
)
def test_an_edge_with_invalid_access_settings_does_not_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("ANTIPHON_PORT", "0")
    monkeypatch.setenv(f"ANTIPHON_{name}", value)
    with structlog.testing.capture_logs() as logs:
        monkeypatch.setattr("antiphon.broker.service.process.configure_logging", lambda _: None)
        assert main() == CONFIG_STATUS
    [line] = logs
    assert line["event"] == "edge_cannot_start"
    assert f"ANTIPHON_{name}: " in line["error"]
    assert "too-short" not in str(logs)


def _routes(app: Any, inherited: tuple[Any, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Path and guards of every route; FastAPI keeps included routers, or flattens them."""
    for route in app.routes:
        router = getattr(route, "original_router", None)
        if router is not None:
            yield from _routes(router, (*inherited, *route.include_context.dependencies))
            continue
        own = [*inherited, *getattr(route, "dependencies", ())]
        guards = [item.dependency for item in own if item.dependency in GUARDS]
        yield route.path, guards


def test_every_route_and_every_socket_has_a_guard() -> None:
    guards: dict[str, list[Any]] = {}
    for path, found in _routes(create_app(EdgeSettings())):
        guards.setdefault(path, []).append(found)
    open_to_all = {path for path, each in guards.items() if not all(each)}
    assert open_to_all == PUBLIC | SOCKETS
    for socket in SOCKETS:
        guard = TWILIO if socket == TWILIO_PATH else CLIENT
        assert guards[socket] == [[guard], []], "WebSockets, and plain requests, which get 426"
    administered = {path for path, each in guards.items() if [ADMIN] in each}
    assert administered == {
        *("/api/admin/apps", "/api/admin/apps/{app_id}"),
        *("/api/admin/live", "/api/admin/workers/{worker_id}/drain"),
        *("/api/queue/{ticket_id}", "/api/config/eta", "/api/sessions"),
        "/api/sessions/{session_id}",
    }
    recording = "/api/sessions/{session_id}"
    shared = {path for path, each in guards.items() if [READER] in each}
    assert shared == {recording} | {
        f"{recording}/{rest}"
        for rest in (
            *("recording", "peaks", "assets/{asset_path:path}", "download"),
            *("comment", "upload-recording"),
        )
    }
    for both in ("comment", "upload-recording"):  # written by id, also read by link
        assert guards[f"{recording}/{both}"] == [[CLIENT], [READER]]


def test_the_signature_of_twilio_is_that_of_the_public_address(tmp_path: Path) -> None:
    token = "auth-token-of-the-account"
    file = tmp_path / "token"
    file.write_text(token)
    rules = access("0.0.0.0", twilio_auth_token_file=file, trusted_proxies=["10.0.0.1"])

    def check(signature: str, **headers: str) -> int:
        given: Any = {"x_twilio_signature": signature, **headers}
        call = connection("10.0.0.1", **given)
        call.scope.update({"path": TWILIO_PATH, "scheme": "ws"})
        try:
            rules.check_twilio(call)
        except HttpError as refusal:
            return refusal.status_code
        return 200

    public = {"x_forwarded_proto": "https", "x_forwarded_host": "voice.example.com"}
    signature = signature_of(token, "wss://voice.example.com/twilio/media")
    assert check(signature, **public) == 200
    assert check(signature) == 403  # it was signed for another address
    assert check(signature_of("another", "wss://voice.example.com/twilio/media"), **public) == 403
    assert check("", **public) == 403
    closed = access("0.0.0.0")
    with pytest.raises(HttpError, match="ANTIPHON_TWILIO_AUTH_TOKEN_FILE"):
        closed.check_twilio(connection("10.0.0.1"))


def test_a_key_of_an_openai_client_in_a_subprotocol() -> None:
    rules = access(api_keys=KEY)
    offered = ("realtime", f"openai-insecure-api-key.{KEY}")
    assert status(rules.check_client, protocols=offered) == 200
    wrong = ("realtime", f"openai-insecure-api-key.{OTHER}")
    assert status(rules.check_client, protocols=wrong) == 401


def opens_realtime(policy: AccessPolicy, secret: str, path: str) -> bool:
    """Whether a secret for browsers opens the WebSocket at this address."""
    socket = connection(authorization=f"Bearer {secret}", user_agent="OpenAI/JS 7.59.0")
    path, _, query = path.partition("?")
    socket.scope |= {"path": path, "query_string": query.encode()}
    try:
        policy.check_client(socket)
    except HttpError:
        return False
    return True


def test_a_secret_opens_realtime_sessions_of_openai_only() -> None:
    policy = access(api_keys=[KEY])
    issued = connection(authorization=f"Bearer {KEY}")
    secret = policy.sign(issued, ClientSecret(2**40, policy.client_id(issued), {}))
    for path in ("/v1/realtime?model=m", "/openai/v1/realtime", "/realtime", "/openai/realtime"):
        assert opens_realtime(policy, secret, path)
    for path in ("/v1/realtime?mode=audio", "/ws/chat", "/ws/duplex/a", "/v1/models"):
        assert not opens_realtime(policy, secret, path)
    assert not opens_realtime(access(api_keys=[OTHER]), secret, "/realtime")
    holder = connection(authorization=f"Bearer {secret}")
    assert policy.client_id(holder) == policy.client_id(issued) != ""


def test_without_keys_a_secret_names_no_other_client() -> None:
    policy = access("0.0.0.0")
    forged = policy.sign(connection(), ClientSecret(2**40, "another", {}))
    holder = connection("203.0.113.9", authorization=f"Bearer {forged}")
    assert policy.client_secret(holder)
    assert policy.client_id(holder).startswith("address:")


REBOUND = {"host": "evil.example:8006", "origin": "http://evil.example:8006"}
"""What a browser sends for a page whose host name points at this machine."""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 403),
        ({"api_keys": [KEY]}, 401),  # the page has no key
        ({"allowed_hosts": ["talk.example"]}, 403),
        ({"allowed_hosts": ["Evil.example."]}, 200),
        ({"allowed_origins": ["http://evil.example:8006"]}, 200),
        ({"allowed_origins": ["*"]}, 200),
        ({"trusted_proxies": ["127.0.0.1"]}, 200),  # the proxy selects by name
    ],
)
def test_a_page_whose_name_points_at_this_machine(settings: dict[str, Any], expected: int) -> None:
    assert status(access(**settings).check_client, **REBOUND) == expected


@pytest.mark.parametrize("host", ["localhost:8006", "127.0.0.1", "[::1]:8006", "192.168.1.5:8006"])
def test_names_and_addresses_of_this_machine_are_allowed(host: str) -> None:
    assert status(access().check_client, host=host) == 200


def test_a_public_edge_answers_under_every_name_unless_they_are_listed() -> None:
    assert status(access("0.0.0.0").check_client, **REBOUND) == 200
    listed = access("0.0.0.0", allowed_hosts=["talk.example"])
    assert status(listed.check_client, **REBOUND) == 403
    assert status(listed.check_client, host="talk.example") == 200
