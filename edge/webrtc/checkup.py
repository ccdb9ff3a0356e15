"""Where the calls of an edge would listen, as `antiphon doctor` shows it."""

import socket
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from antiphon.edge.calls import HAS_WEBRTC
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

_PORTS = "UDP ports of calls"
_ADDRESSES = "addresses of calls"


def examine_calls(edge: EdgeSettings, *, installed: bool = HAS_WEBRTC) -> Iterator[Finding]:
    """Nothing if there is neither the extra `webrtc` nor a setting for it."""
    if not installed:
        if edge.webrtc_ports or edge.webrtc_addresses:
            remedy = "pip install 'antiphon[webrtc]', or remove webrtc_ports and webrtc_addresses"
            yield failure(_PORTS, "set, but the extra `webrtc` is not installed", remedy)
        return
    from antiphon.edge.webrtc.ice import UdpPlaces

    places = UdpPlaces(edge.host, edge.webrtc_port_range, edge.webrtc_addresses)
    try:
        hosts = [_bound(host, 0) for host in places.hosts()]
    except OSError as error:
        remedy = "set ANTIPHON_HOST to an address of this machine"
        yield failure(_ADDRESSES, f"{edge.host}: {error.strerror}", remedy)
        return
    yield _examine_ports(hosts[0], places.ports)
    yield _examine_addresses(places.announced or hosts)


def _examine_ports(host: str, ports: tuple[int, int] | None) -> Finding:
    if ports is None:
        if ip_address(host).is_loopback:
            return ok(_PORTS, "any free ones")
        remedy = "set ANTIPHON_WEBRTC_PORTS, and let UDP to these ports through"
        return warning(_PORTS, "any free ones: a firewall cannot know them", remedy)
    first, last = ports
    count = last - first + 1
    used = sum(not _is_free(host, port) for port in range(first, last + 1))
    found = f"{first} to {last}, for {count} calls at once"
    if used == count:
        remedy = "choose others: ANTIPHON_WEBRTC_PORTS"
        return failure(_PORTS, f"{found}, but all are in use", remedy)
    if used:
        remedy = "nothing if calls of this edge use them, else choose others: ANTIPHON_WEBRTC_PORTS"
        return warning(_PORTS, f"{found}, of which {used} are in use", remedy)
    return ok(_PORTS, found)


def _examine_addresses(announced: Sequence[str]) -> Finding:
    """Whether clients that are not in the same network can reach one of them."""
    found = ", ".join(announced)
    near = [address for address in announced if not ip_address(address).is_global]
    if near == list(announced) and not all(ip_address(each).is_loopback for each in near):
        remedy = (
            "nothing if all clients are there, else put a public one into ANTIPHON_WEBRTC_ADDRESSES"
        )
        return warning(_ADDRESSES, f"{found}: not reachable from the internet", remedy)
    return ok(_ADDRESSES, found)


def _is_free(host: str, port: int) -> bool:
    try:
        _bound(host, port)
    except OSError:
        return False
    return True


def _bound(host: str, port: int) -> str:
    """The address of a name. Raises OSError if no socket can be opened there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, port))
        return str(probe.getsockname()[0])
