import ssl
from pathlib import Path

import pytest
import trustme

from antiphon.broker.redis_address import RedisAddress, RedisKind
from antiphon.broker.service.logs import hide_in_text
from antiphon.broker.settings import BrokerSettings, InvalidSettings

SINGLE, SENTINEL, CLUSTER = RedisKind


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://r", RedisAddress(kind=SINGLE, endpoints=(("r", 6379),))),
        ("redis://", RedisAddress(kind=SINGLE, endpoints=(("localhost", 6379),))),
        ("redis://r:1/2", RedisAddress(kind=SINGLE, endpoints=(("r", 1),), db=2)),
        (" redis://r:1/2/\n", RedisAddress(kind=SINGLE, endpoints=(("r", 1),), db=2)),
        ("redis://r?db=3", RedisAddress(kind=SINGLE, endpoints=(("r", 6379),), db=3)),
        ("redis://[::1]:7", RedisAddress(kind=SINGLE, endpoints=(("::1", 7),))),
        (
            "redis://anna:p%40s%2Fs:w@r",
            RedisAddress(kind=SINGLE, endpoints=(("r", 6379),), user="anna", password="p@s/s:w"),
        ),
        ("redis://:word@r", RedisAddress(kind=SINGLE, endpoints=(("r", 6379),), password="word")),
        ("unix:///run/r.sock", RedisAddress(kind=SINGLE, path="/run/r.sock")),
        (
            "unix://anna:word@/run/a%20b?db=4",
            RedisAddress(kind=SINGLE, path="/run/a b", db=4, user="anna", password="word"),
        ),
        (
            "redis+sentinel://a,[::2]:5/mymaster",
            RedisAddress(kind=SENTINEL, endpoints=(("a", 26379), ("::2", 5)), service="mymaster"),
        ),
        (
            "redis+sentinel://anna:word@a:1/my-master/6",
            RedisAddress(
                kind=SENTINEL,
                endpoints=(("a", 1),),
                service="my-master",
                db=6,
                user="anna",
                password="word",
            ),
        ),
        (
            "redis+cluster://anna@a:1,b",
            RedisAddress(kind=CLUSTER, endpoints=(("a", 1), ("b", 6379)), user="anna"),
        ),
    ],
)
def test_every_form_is_read(url: str, address: RedisAddress) -> None:
    assert RedisAddress.parse(url) == address


@pytest.mark.parametrize(
    ("url", "reason", "form"),
    [
        ("r:6379", "must be a URL of the form redis://host", "redis+cluster://"),
        ("http://r", "must be a URL of the form redis://host", "redis+cluster://"),
        ("redis+sentinels://r/m", "must be a URL of the form redis.sentinel://", "/service[/db]"),
        ("redis-sentinel://r/m", "must be a URL of the form redis.sentinel://", "/service[/db]"),
        ("sentinel://r/m", "must be a URL of the form redis.sentinel://", "/service[/db]"),
        ("redis-cluster://r", "must be a URL of the form redis.cluster://", "host[:port],host"),
        ("redis+unix:///r", "must be a URL of the form unix:///path", "unix:///path/of/socket"),
        ("redis://r:six", "a port is a number", "redis://host[:port][/db]"),
        ("redis://r:0", "a port is a number from 1", "redis://host[:port][/db]"),
        ("redis://r:70000", "a port is a number", "redis://host[:port][/db]"),
        ("redis://[::1", "an IPv6 address is in brackets", "redis://host[:port][/db]"),
        ("redis://r/zero", "the database is a number", "redis://host[:port][/db]"),
        ("redis://r?db=x", "the database is a number", "redis://host[:port][/db]"),
        ("redis://r?db=", "db has no value", "redis://host[:port][/db]"),
        ("redis://a,b", r"several hosts need redis\+sentinel", "redis://host[:port][/db]"),
        ("redis://a,b", "/service", "redis+cluster://host[:port],host[:port]"),
        ("redis://[::1]7", "an IPv6 address is in brackets", "redis://host[:port][/db]"),
        ("redis://::1:7", "an IPv6 address is in brackets", "redis://host[:port][/db]"),
        ("redis://fe80::1%eth0", "an IPv6 address is in brackets", "redis://host[:port][/db]"),
        ("redis://r/2?db=3", "the database is given twice", "redis://host[:port][/db]"),
        ("redis://r?db=2&db=3", "db is given twice", "redis://host[:port][/db]"),
        ("redis://r/\u0663", "the database is a number", "redis://host[:port][/db]"),
        ("redis://r :7", "a host has no spaces", "redis://host[:port][/db]"),
        ("redis://r\t:7", "a host has no spaces", "redis://host[:port][/db]"),
        ("redis://r#0", r"write / \? # in a user or password as", "redis://host[:port][/db]"),
        ("redis+sentinel://a, b/m", "a host has no spaces", "host[:port]/service[/db]"),
        ("redis+cluster://a,redis://b", "the scheme is written once", "redis+cluster://host"),
        ("redis://r?max_connections=3", "max_connections is unknown", "redis://host[:port][/db]"),
        (
            "redis://r?ssl_ca_certs=f",
            "ssl_ca_certs needs rediss://",
            "redis://host[:port][/db]",
        ),
        ("unix://run/r.sock", "absolute", "unix:///path/of/socket"),
        ("unix://", "absolute", "unix:///path/of/socket"),
        ("redis+sentinel://a,b", "name of the service is missing", "host[:port]/service[/db]"),
        ("redis+sentinel:///mymaster", "a host is missing", "host[:port]/service[/db]"),
        ("redis+sentinel://a,/mymaster", "a host is missing", "host[:port]/service[/db]"),
        ("redis+sentinel://a/m/x", "the database is a number", "host[:port]/service[/db]"),
        ("redis+cluster://a/1", "only the database 0", "redis+cluster://host[:port],host"),
        ("redis+cluster://a?db=1", "db is unknown or not for", "redis+cluster://host[:port],host"),
        ("redis+cluster://", "a host is missing", "redis+cluster://host[:port],host"),
        ("rediss://r?ssl_ca_certs=/no/file", "ssl_ca_certs /no/file cannot be used", "rediss://"),
        ("rediss+cluster://r?ssl_keyfile=/k", "needs ssl_certfile", "rediss+cluster://"),
        ("rediss://r?ssl_cert_reqs=maybe", "ssl_cert_reqs is required or none", "rediss://"),
        ("rediss://r?ssl_check_hostname=2", "ssl_check_hostname is true or false", "rediss://"),
    ],
)
def test_a_wrong_url_is_refused_with_the_right_form(url: str, reason: str, form: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        RedisAddress.parse(url)
    assert form in str(refused.value)
    assert hide_in_text(str(refused.value)) == str(refused.value)  # logs show the form as it is


ILLEGIBLE = (
    "redis://:sec/ret@host",
    "redis://:sec/ret@host:6379",
    "redis://:sec?ret@host:6379",
    "redis://:sec#ret@host:6379",
    "redis://:sec?ret=1@host:6379",
    "redis://user:1/sec?ret@host:6379",
    "redis://sec#ret:1@host:6379",
    "redis+sentinel://:sec/ret@host/mymaster",
    "unix://:sec/ret@/run/redis.sock",
)


@pytest.mark.parametrize("url", ILLEGIBLE)
def test_a_password_that_ends_the_host_is_explained(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"write / \? # in a user or password as %2F %3F %23, and @"
    ):
        RedisAddress.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:sec@ret@ho:st",
        "redis://anna:secret@host:port",
        "secret@host",
        "redis+cluster://a:secret@b,c:secret",
        *ILLEGIBLE,
    ],
)
def test_a_refusal_does_not_show_the_password(url: str) -> None:
    with pytest.raises(ValueError, match="the form") as refused:
        RedisAddress.parse(url)
    assert "sec" not in str(refused.value)
    assert "ret" not in str(refused.value)


def test_tls_verifies_with_the_named_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("antiphon.test")
    ca, certificate, key = tmp_path / "ca", tmp_path / "certificate", tmp_path / "key"
    authority.cert_pem.write_to_path(ca)
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    client = f"ssl_ca_certs={ca}&ssl_certfile={certificate}&ssl_keyfile={key}"
    for scheme, place in (("rediss", ""), ("rediss+sentinel", "/m"), ("rediss+cluster", "")):
        tls = RedisAddress.parse(f"{scheme}://a{place}?{client}").tls
        assert tls is not None
        assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)
        assert len(tls.get_ca_certs()) == 1
    trusting = RedisAddress.parse(f"rediss://a?{client}&ssl_check_hostname=false").tls
    assert trusting is not None
    assert (trusting.check_hostname, trusting.verify_mode) == (False, ssl.CERT_REQUIRED)
    blind = RedisAddress.parse("rediss://a?ssl_cert_reqs=none").tls
    assert blind is not None
    assert (blind.check_hostname, blind.verify_mode) == (False, ssl.CERT_NONE)
    without_key = f"ssl_certfile {ca} cannot be used .*private key"
    with pytest.raises(ValueError, match=without_key):
        RedisAddress.parse(f"rediss://a?ssl_certfile={ca}")
    with pytest.raises(ValueError, match=f"ssl_ca_certs {key} cannot be used .*no certificate"):
        RedisAddress.parse(f"rediss://a?ssl_ca_certs={key}")
    with pytest.raises(ValueError, match="does not belong to the certificate"):
        RedisAddress.parse(f"rediss://a?ssl_certfile={ca}&ssl_keyfile={key}")


def test_the_settings_refuse_a_wrong_url_and_name_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTIPHON_REDIS_URL", "redis+sentinel://:secret@a")
    with pytest.raises(InvalidSettings, match=r"^ANTIPHON_REDIS_URL: the name of") as refused:
        BrokerSettings()
    assert "secret" not in str(refused.value)
