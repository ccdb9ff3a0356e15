"""What `antiphon doctor` says about calls by WebRTC."""

import socket

import pytest

from antiphon.edge.settings import EdgeSettings
from antiphon.edge.webrtc.checkup import examine_calls
from antiphon.shared_schemas.findings import FindingStatus

OK, WARNING, FAILURE = FindingStatus


def verdicts(installed: bool = True, **settings: object) -> list[tuple[FindingStatus, str]]:
    found = [*examine_calls(EdgeSettings(**settings), installed=installed)]  # type: ignore[arg-type]
    assert all((finding.remedy == "") == (finding.verdict is OK) for finding in found)
    return [(finding.verdict, finding.found) for finding in found]


def three_ports() -> list[socket.socket]:
    """UDP sockets of 127.0.0.1 whose ports follow each other."""
    while True:
        sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(3)]
        try:
            sockets[0].bind(("127.0.0.1", 0))
            for number, each in enumerate(sockets[1:], 1):
                each.bind(("127.0.0.1", sockets[0].getsockname()[1] + number))
        except (OSError, OverflowError):
            for each in sockets:
                each.close()
        else:
            return sockets


def test_an_edge_without_the_extra_says_nothing() -> None:
    assert verdicts(installed=False) == []


@pytest.mark.parametrize(
    "settings", [{"webrtc_ports": "40000-40009"}, {"webrtc_addresses": "203.0.113.7"}]
)
def test_settings_of_an_extra_that_is_not_installed(settings: dict[str, str]) -> None:
    [(verdict, found)] = verdicts(installed=False, **settings)
    assert (verdict, "not installed" in found) == (FAILURE, True)


class TestWithTheExtra:
    @pytest.fixture(autouse=True)
    def _extra(self) -> None:
        pytest.importorskip("aioice", reason="the extra webrtc is not installed")

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_an_edge_of_this_machine(self, host: str) -> None:
        assert verdicts(host=host) == [(OK, "any free ones"), (OK, "127.0.0.1")]

    def test_an_address_of_another_machine(self) -> None:
        [(verdict, found)] = verdicts(host="203.0.113.7")
        assert (verdict, found.startswith("203.0.113.7: ")) == (FAILURE, True)

    def test_ports_that_no_firewall_knows(self) -> None:
        [(verdict, found), _] = verdicts(host="0.0.0.0", webrtc_addresses="8.8.8.8")
        assert (verdict, "a firewall cannot know them" in found) == (WARNING, True)

    @pytest.mark.parametrize(
        ("addresses", "verdict"),
        [("8.8.8.8", OK), ("10.0.0.5,8.8.8.8", OK), ("10.0.0.5", WARNING), ("172.18.0.3", WARNING)],
    )
    def test_addresses_behind_nat(self, addresses: str, verdict: FindingStatus) -> None:
        [_, (found, text)] = verdicts(host="0.0.0.0", webrtc_addresses=addresses)
        assert (found, text.startswith(addresses.replace(",", ", "))) == (verdict, True)

    def test_the_addresses_of_the_machine_are_those_of_a_call(self) -> None:
        [_, (_, found)] = verdicts(host="0.0.0.0")
        assert "127.0.0.1" in found

    @pytest.mark.parametrize(
        ("used", "verdict", "words"),
        [
            (0, OK, "for 3 calls at once"),
            (2, WARNING, "of which 2 are in use"),
            (3, FAILURE, "all are in use"),
        ],
    )
    def test_ports_in_use(self, used: int, verdict: FindingStatus, words: str) -> None:
        sockets = three_ports()
        first = sockets[0].getsockname()[1]
        for free in sockets[used:]:
            free.close()
        [(found, text), _] = verdicts(webrtc_ports=f"{first}-{first + 2}")
        for taken in sockets[:used]:
            taken.close()
        assert (found, words in text) == (verdict, True), text
