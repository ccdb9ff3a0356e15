"""The client refuses pictures that the server would misunderstand."""

from typing import Any

import numpy as np
import pytest

from antiphon.client.arguments import check_frames
from support.scripted_server import Wire, talking_to

JPEG = b"\xff\xd8jpeg"
SECOND = np.zeros(16000, dtype=np.float32)


@pytest.mark.parametrize("frames", [[], (), [JPEG], (JPEG, JPEG)])
def test_good_frames_pass(frames: Any) -> None:
    assert check_frames(frames) == list(frames)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (JPEG, "frames is a bytes, a list of JPEG files is needed"),
        ("photo.jpg", "frames is a str, a list of JPEG files is needed"),
        ([JPEG, "photo.jpg"], r"frames\[1\] is a str, the bytes of a JPEG file are needed: Path"),
        (np.zeros((4, 4, 3), np.uint8), "frames is a ndarray, a list of JPEG files is needed"),
        ([np.zeros((4, 4, 3), np.uint8)], r"frames\[0\] is a ndarray, the bytes of a JPEG file"),
    ],
)
def test_wrong_frames_are_refused_with_the_remedy(frames: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        check_frames(frames)


async def test_a_session_refuses_wrong_frames() -> None:
    async def script(wire: Wire) -> None:
        await wire.begin()
        await wire.finish()

    async with talking_to(script) as session:
        await session.prepare()
        wrong: Any = JPEG
        with pytest.raises(TypeError, match="frames is a bytes"):
            await session.send_audio(SECOND, frames=wrong)
        wrong = ["photo.jpg"]
        with pytest.raises(TypeError, match="frames"):
            async for _ in session.converse(SECOND, frames=lambda: wrong):
                pass
