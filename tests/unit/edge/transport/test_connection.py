"""The subprotocols and encodings of a socket."""

import pytest

from antiphon.edge.transport.connection import choose_encoding, choose_subprotocol
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import BINARY_PROTOCOL, PLAIN_PROTOCOL


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("antiphon.key.secret",), None),
        ((PLAIN_PROTOCOL, BINARY_PROTOCOL), BINARY_PROTOCOL),
        (("antiphon.key.secret", PLAIN_PROTOCOL), PLAIN_PROTOCOL),
    ],
)
def test_the_subprotocol_is_never_a_key(offered: tuple[str, ...], chosen: str | None) -> None:
    assert choose_subprotocol(offered) == chosen


@pytest.mark.parametrize(
    ("subprotocol", "pcm"), [(None, "s16"), (PLAIN_PROTOCOL, "f32"), (BINARY_PROTOCOL, "mp3")]
)
def test_a_pcm_format_needs_binary_frames(subprotocol: str | None, pcm: str) -> None:
    with pytest.raises(InvalidInput, match="pcm"):
        choose_encoding(subprotocol, pcm)
