"""Addresses of sessions."""

import pytest

from antiphon.client.errors import CannotConnect
from antiphon.client.link import edge_address, is_loopback_url, new_session_id
from antiphon.shared_schemas.ids import duplex_kind, is_session_id
from antiphon.shared_schemas.states import SessionKind


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://h:8006", "ws://h:8006/ws/duplex/s"),
        ("h:8006", "ws://h:8006/ws/duplex/s"),
        ("localhost", "ws://localhost:8006/ws/duplex/s"),
        ("[::1]", "ws://[::1]:8006/ws/duplex/s"),
        ("::1", "ws://[::1]:8006/ws/duplex/s"),
        (" ws://h:8006/\n", "ws://h:8006/ws/duplex/s"),
        ("https://h/voice/", "wss://h/voice/ws/duplex/s"),
        ("wss://h?key=1", "wss://h/ws/duplex/s?key=1"),
    ],
)
def test_session_address_under_an_edge(url: str, expected: str) -> None:
    assert edge_address(url, "/ws/duplex/s") == expected


def test_options_are_added_to_the_query() -> None:
    assert edge_address("ws://h?key=1", "/s", timing="1", pcm=None).endswith("/s?key=1&timing=1")


@pytest.mark.parametrize(
    "url", ["", "ftp://h", "ws://", "ws://h:99999", "h:x", "ws://[::1", ".", "a..b", "ws://\x00:1"]
)
def test_invalid_edge_addresses_are_refused(url: str) -> None:
    with pytest.raises(CannotConnect, match="no address of an edge"):
        edge_address(url, "/s")


@pytest.mark.parametrize("url", ["ws://h:1/ws/duplex/x", "h:1/v1/realtime?mode=audio"])
def test_the_path_of_a_session_is_refused(url: str) -> None:
    with pytest.raises(CannotConnect, match="give the edge's address: ws://h:1"):
        edge_address(url, "/ws/chat")


def test_new_ids_are_unique_and_name_their_kind() -> None:
    ids = {new_session_id("adx") for _ in range(100)}
    assert len(ids) == 100
    assert all(is_session_id(sid) and duplex_kind(sid) is SessionKind.AUDIO_DUPLEX for sid in ids)
    assert duplex_kind(new_session_id("omni")) is SessionKind.OMNI_DUPLEX


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("ws://127.0.0.1:1", True),
        ("ws://localhost", True),
        ("ws://[::1]:2", True),
        ("ws://h", False),
    ],
)
def test_loopback(address: str, local: bool) -> None:
    assert is_loopback_url(address) is local
