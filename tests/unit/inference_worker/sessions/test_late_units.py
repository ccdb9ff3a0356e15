"""When a unit counts as late."""

import pytest

from antiphon.inference_worker.sessions.duplex import allowed_ms


@pytest.mark.parametrize(
    ("length_ms", "speaks", "allowed"),
    [
        (1000, True, 1000),
        (1000, False, 1000),
        (200, True, 200),
        (200, False, 1000),
        (3000, False, 3000),
    ],
)
def test_speech_must_keep_up_with_its_chunk(length_ms: float, speaks: bool, allowed: float) -> None:
    assert allowed_ms(length_ms, speaks=speaks) == allowed
