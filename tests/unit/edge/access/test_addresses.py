"""Client addresses behind proxies, and allowed web origins."""

import pytest
from starlette.requests import HTTPConnection

from antiphon.edge.access.addresses import (
    AllowedHosts,
    AllowedOrigins,
    TrustedProxies,
    host_name,
    is_loopback,
    parse_address,
    rate_limit_key,
    same_origin,
)


def connection(peer: str | None, **headers: str) -> HTTPConnection:
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    client = (peer, 4711) if peer else None
    return HTTPConnection({"type": "http", "headers": pairs, "client": client})


def caller(peer: str | None, forwarded: str | None, *trusted: str) -> str | None:
    headers = {"x_forwarded_for": forwarded} if forwarded is not None else {}
    found = TrustedProxies(trusted).client_address(connection(peer, **headers))
    return str(found) if found else None


CASES = {
    "no proxy": ("203.0.113.5", None, (), "203.0.113.5"),
    "a header of a stranger is not believed": ("203.0.113.5", "1.1.1.1", (), "203.0.113.5"),
    "one proxy": ("10.0.0.1", "203.0.113.5", ("10.0.0.0/8",), "203.0.113.5"),
    "what the client claimed before": ("10.0.0.1", "6.6.6.6, 1.2.3.4", ("10.0.0.1",), "1.2.3.4"),
    "two proxies": ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", ("10.0.0.0/8",), "1.2.3.4"),
    "with port": ("10.0.0.1", "1.2.3.4:555", ("10.0.0.1",), "1.2.3.4"),
    "v6 with port": ("::1", "[2001:db8::7]:555", ("::1",), "2001:db8::7"),
    "nonsense": ("10.0.0.1", "6.6.6.6, unknown", ("10.0.0.1",), "10.0.0.1"),
    "empty": ("10.0.0.1", " , ", ("10.0.0.1",), "10.0.0.1"),
    "only proxies": ("10.0.0.1", "10.0.0.3", ("10.0.0.0/8",), "10.0.0.3"),
    "mapped": ("::ffff:203.0.113.5", None, (), "203.0.113.5"),
    "no IP connection": (None, "1.1.1.1", (), None),
}


@pytest.mark.parametrize(("peer", "forwarded", "trusted", "expected"), CASES.values(), ids=CASES)
def test_caller(
    peer: str | None, forwarded: str | None, trusted: tuple[str, ...], expected: str | None
) -> None:
    assert caller(peer, forwarded, *trusted) == expected


def test_requested_host() -> None:
    asked = {"host": "inner:8006", "x_forwarded_host": "a.example"}
    assert TrustedProxies([]).requested_host(connection("10.0.0.1", **asked)) == "inner:8006"
    assert (
        TrustedProxies(["10.0.0.1"]).requested_host(connection("10.0.0.1", **asked)) == "a.example"
    )
    assert TrustedProxies(["10.0.0.1"]).requested_host(connection("10.0.0.1")) is None


def test_an_invalid_proxy_network() -> None:
    with pytest.raises(ValueError, match="proxy"):
        TrustedProxies(["proxy"])


def test_an_ipv6_network_has_one_rate_limit_key() -> None:
    one, two, other = (
        parse_address(text) for text in ("2001:db8::1", "2001:db8::ff:1", "2001:db8:0:1::1")
    )
    assert one
    assert two
    assert other
    assert rate_limit_key(one) == rate_limit_key(two) != rate_limit_key(other)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(name, True) for name in ("localhost", "LOCALHOST.", "x.localhost", "127.0.0.1", "::1")],
        *[(name, False) for name in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example")],
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


DISGUISED = (
    *("127.0.0.1%00.evil.example", "[::1%00.evil.example]", "[::1%eth0]", "127.0.0.1%"),
    *("evil.example@127.0.0.1", "user:password@localhost", "127.0.0.1/evil.example", "127.0.0.1#a"),
    *(
        "127.0.0.1?a",
        "127.0.0.1:evil.example",
        "127.0.0.1:99999",
        "127.0.0.1:",
        "[::1]evil.example",
    ),
    *("[::1", "127.0.0.1,evil.example", "127.0.0.1 evil.example", "127.0.0.1\\evil.example"),
    *("localhost\t.evil.example", "\u0661.0.0.1", "evil.example"),
)
"""None of them is this machine, also if a parser reads no further than the address."""


@pytest.mark.parametrize("host", DISGUISED)
def test_a_disguised_host_is_refused(host: str) -> None:
    assert not AllowedHosts([], strict=True).allow(host)
    assert not is_loopback(host_name(host))
    assert not same_origin(f"http://{host}", "127.0.0.1:80")
    assert not same_origin("http://127.0.0.1", host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8006", "[::1]:8006", "LOCALHOST.", "a.localhost", "", None]
)
def test_this_machine_is_an_allowed_host(host: str | None) -> None:
    assert AllowedHosts([], strict=True).allow(host)


def test_the_zone_of_a_peer_does_not_matter() -> None:
    assert caller("fe80::1%eth0", None) == "fe80::1"
    assert caller("10.0.0.1", "203.0.113.5%evil", "10.0.0.1") == "10.0.0.1"


def test_host_names() -> None:
    assert [host_name(h) for h in ("a:1", "[::1]:8006", "[::1]", "a", None, "[::")] == [
        *("a", "::1", "::1", "a", "", "")
    ]


OWN = {
    ("https://a.example", "a.example"): True,
    ("https://a.example", "a.example:443"): True,
    ("https://a.example:443", "a.example"): True,
    ("http://a.example", "a.example:80"): True,
    ("http://localhost:8006", "localhost:8006"): True,
    ("http://[::1]:8006", "[::1]:8006"): True,
    ("https://a.example", "A.EXAMPLE"): True,
    ("https://a.example", "b.example"): False,
    ("http://evil.example@127.0.0.1:8006", "127.0.0.1:8006"): False,
    ("http://127.0.0.1:8006/evil.example", "127.0.0.1:8006"): False,
    ("http://127.0.0.1:8006#evil.example", "127.0.0.1:8006"): False,
    ("https://a.example", "a.example.evil.example"): False,
    ("https://evil.example/a.example", "a.example"): False,
    ("https://a.example@evil.example", "a.example"): False,
    ("https://a.example:8443", "a.example"): False,
    ("http://a.example:8006", "a.example:8007"): False,
    ("null", "a.example"): False,
    ("", "a.example"): False,
    ("file://", "a.example"): False,
    ("https://", ""): False,
    ("https://a.example", None): False,
    ("https://a.example:port", "a.example"): False,
    ("https://[::1", "a.example"): False,
    ("https://a.example", "a.example:99999"): False,
    ("chrome-extension://abc", "abc"): False,
}


@pytest.mark.parametrize(("pair", "same"), OWN.items(), ids=str)
def test_same_origin(pair: tuple[str, str | None], same: bool) -> None:
    assert same_origin(*pair) is same


def test_a_request_without_origin_is_allowed() -> None:
    assert AllowedOrigins([]).allow(None, "a.example")


def test_listed_origins_are_allowed() -> None:
    origins = AllowedOrigins(["https://App.example/", "http://dev.example:80", "null"])
    for origin in ("https://app.example", "HTTPS://APP.EXAMPLE", "http://dev.example", "null"):
        assert origins.allow(origin, "edge.example")
    for origin in ("http://app.example", "https://app.example:8443", "https://x.app.example"):
        assert not origins.allow(origin, "edge.example")


def test_a_star_allows_every_origin() -> None:
    assert AllowedOrigins(["*"]).allow("https://anything.example", "edge.example")


@pytest.mark.parametrize(
    "entry",
    [
        "app.example",
        "https://",
        "https://user@a.example",
        "https://a.example/path",
        "https://a.example?x",
        "",
    ],
)
def test_invalid_origins(entry: str) -> None:
    with pytest.raises(ValueError, match="allowed_origins"):
        AllowedOrigins([entry])
