"""Is a TLS certificate in order: does it fit its key, is it valid, for how long, for which names."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

from antiphon.shared_schemas.findings import Finding, failure, ok, warning

_SOON_DAYS = 14
_DAY_S = 86_400


def examine_certificate(certificate: Path, key: Path) -> Finding:
    """A certificate in PEM with its private key, as a proxy would use them."""
    about = f"certificate {certificate}"
    try:
        shown = _handshake(certificate, key)
    except ssl.SSLCertVerificationError as error:
        return failure(about, error.verify_message, "have it issued anew")
    except (ssl.SSLError, OSError) as error:
        remedy = "name a PEM file, leaf first, and the private key that belongs to it"
        return failure(about, f"not usable with {key}: {error}", remedy)
    days = (ssl.cert_time_to_seconds(shown["notAfter"]) - time.time()) / _DAY_S
    found = f"{', '.join(_names(shown)) or 'no names'}; valid for {days:.0f} days"
    if days < _SOON_DAYS:
        return warning(about, found, "have it issued anew now")
    return ok(about, found)


def _handshake(certificate: Path, key: Path) -> dict[str, Any]:
    """What a client is shown that trusts this very certificate; in memory, without a socket."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the leaf itself is trusted
    asking.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = asking.wrap_bio(to_client, to_server)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return dict(client.getpeercert() or {})


def _names(shown: dict[str, Any]) -> list[str]:
    return [value for _, value in shown.get("subjectAltName", ())]
