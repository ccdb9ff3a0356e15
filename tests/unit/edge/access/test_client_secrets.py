"""Keys for browsers."""

import time
from typing import Any

import pytest

from antiphon.edge.access.client_secrets import MAX_CHARS, ClientSecret, read_secret

KEY, OTHER = b"k" * 32, b"o" * 32
SOON = int(time.time()) + 3600
SECRET = ClientSecret(SOON, "key:1", {"type": "realtime", "instructions": "ja, täglich"})


def test_any_process_with_the_key_reads_it() -> None:
    token = SECRET.signed(KEY)
    assert token.startswith("ek_")
    assert read_secret(token, [OTHER, KEY]) == SECRET


def test_other_keys_and_texts_are_worth_nothing() -> None:
    token = SECRET.signed(KEY)
    longer = ClientSecret(SOON + 1, "key:1", {}).signed(OTHER)
    forged = longer.partition(".")[0] + "." + token.partition(".")[2]
    for text in (token[:-1], token + "A", token[:10] + "A" + token[11:], forged, "ek_", "ek_.", ""):
        assert read_secret(text, [KEY]) is None, text
    assert read_secret(token, [OTHER]) is None
    assert read_secret("ek_é." + "A" * 43, [KEY]) is None
    assert read_secret(token, []) is None


@pytest.mark.parametrize(
    "content",
    [
        ("x", "", {}),
        (None, "", {}),
        ([SOON], "", {}),
        (float(SOON), "", {}),
        (SOON, 1, {}),
        (SOON, None, {}),
        (SOON, "", []),
        (SOON, "", "settings"),
    ],
)
def test_values_of_other_types_are_worth_nothing(content: tuple[Any, Any, Any]) -> None:
    """Without keys everyone can sign."""
    assert read_secret(ClientSecret(*content).signed(KEY), [KEY]) is None


def test_it_expires() -> None:
    assert read_secret(ClientSecret(int(time.time()) - 1, "", {}).signed(KEY), [KEY]) is None


def test_long_settings_do_not_fit_into_a_header() -> None:
    text = "".join(map(str, range(10_000)))
    with pytest.raises(ValueError, match="too long"):
        ClientSecret(SOON, "", {"instructions": text}).signed(KEY)
    assert read_secret("ek_" + "A" * MAX_CHARS, [KEY]) is None
