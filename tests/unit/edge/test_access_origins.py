"""Which pages may talk to an edge."""

from __future__ import annotations

import pytest

from antiphon.edge.origins import Origins, same_origin

OWN = {
    ("https://a.example", "a.example"): True,
    ("https://a.example", "a.example:443"): True,
    ("https://a.example:443", "a.example"): True,
    ("http://a.example", "a.example:80"): True,
    ("http://localhost:8006", "localhost:8006"): True,
    ("http://[::1]:8006", "[::1]:8006"): True,
    ("https://a.example", "A.EXAMPLE"): True,
    ("https://a.example", "b.example"): False,
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
def test_own_origin(pair: tuple[str, str | None], same: bool) -> None:
    assert same_origin(*pair) is same


def test_what_names_no_origin_is_no_browser() -> None:
    assert Origins([]).allow(None, "a.example")


def test_others_by_name() -> None:
    origins = Origins(["https://App.example/", "http://dev.example:80", "null"])
    for origin in ("https://app.example", "HTTPS://APP.EXAMPLE", "http://dev.example", "null"):
        assert origins.allow(origin, "edge.example")
    for origin in ("http://app.example", "https://app.example:8443", "https://x.app.example"):
        assert not origins.allow(origin, "edge.example")


def test_any() -> None:
    assert Origins(["*"]).allow("https://anything.example", "edge.example")


@pytest.mark.parametrize(
    "entry", ["app.example", "https://", "https://a.example/path", "https://a.example?x", ""]
)
def test_entries_that_are_no_origins(entry: str) -> None:
    with pytest.raises(ValueError, match="allowed_origins"):
        Origins([entry])
