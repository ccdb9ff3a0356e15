from __future__ import annotations

import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from antiphon.inference_worker.engines.common.video import (
    InvalidVideo,
    VideoBudget,
    VideoLimits,
    decode_video,
)
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE
from support.video_files import video

TONE = np.sin(2 * np.pi * 440 * np.arange(2 * INPUT_RATE) / INPUT_RATE).astype(np.float32) / 2


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_frame_each_second_and_all_of_the_audio(kind: str) -> None:
    clip = decode_video(video(seconds=3, sound=TONE, kind=kind))
    assert clip.times == (0.0, 1.0, 2.0)
    assert clip.audio.dtype == np.float32
    assert abs(len(clip.audio) - len(TONE)) < INPUT_RATE // 5
    assert 0.3 < np.abs(clip.audio).max() < 0.7
    images = [Image.open(io.BytesIO(frame)) for frame in clip.frames]
    assert [image.format for image in images] == ["JPEG"] * 3
    levels = [float(np.asarray(image).mean()) for image in images]
    assert levels == sorted(levels)


def test_stacked_frames_are_sampled_more_often() -> None:
    assert decode_video(video(seconds=2), stack_frames=5).times == tuple(n / 5 for n in range(10))


def test_too_many_frames_are_thinned_out_evenly() -> None:
    clip = decode_video(video(seconds=9), 2, VideoLimits(frames=8))
    assert clip.times == (0.0, 2.0, 4.0, 6.0, 8.0)


def test_a_silent_video_and_one_without_frames() -> None:
    assert len(decode_video(video()).audio) == 0
    clip = decode_video(video(sound=TONE), with_frames=False)
    assert not clip.frames
    assert len(clip.audio) > INPUT_RATE


def test_large_pictures_are_scaled_down() -> None:
    (frame,) = decode_video(video(seconds=1, size=(640, 320)), limits=VideoLimits(side=128)).frames
    assert Image.open(io.BytesIO(frame)).size == (128, 64)


@pytest.mark.parametrize(
    ("limits", "text"),
    [(VideoLimits(seconds=1.0), "longer than 1 s"), (VideoLimits(pixels=1000), "64 x 48")],
)
def test_videos_beyond_the_limits_are_refused(limits: VideoLimits, text: str) -> None:
    with pytest.raises(InvalidVideo, match=text):
        decode_video(video(), limits=limits)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (VideoBudget(packets=30), "more than 30 frames.*send fewer"),
        (VideoBudget(pixels=30 * 64 * 48), "than 9.22e[+]04 pixels.*send fewer"),
    ],
)
def test_all_videos_of_a_request_share_one_budget(budget: VideoBudget, text: str) -> None:
    """The length of the videos does not matter."""
    crowded = video(seconds=0.1, rate=200)
    assert len(decode_video(crowded, budget=budget).frames) == 1
    with pytest.raises(InvalidVideo, match=text):
        decode_video(crowded, budget=budget)


def test_a_cancelled_request_stops_between_two_frames() -> None:
    asked = iter([False, False, True])
    with pytest.raises(EngineError, match="no longer waits"):
        decode_video(video(), budget=VideoBudget(cancelled=lambda: next(asked)))


def test_long_audio_under_a_short_picture_is_refused() -> None:
    with pytest.raises(InvalidVideo, match="longer than"):
        decode_video(video(seconds=0.5, sound=TONE), limits=VideoLimits(seconds=1.0))


@pytest.mark.parametrize(
    "data", [b"", b"#EXTM3U\nhttp://x/y.ts\n", b"ffconcat version 1.0", video()[:300]]
)
def test_files_that_are_not_videos_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidVideo):
        decode_video(data)


WHOLE = video(seconds=1, sound=TONE[:INPUT_RATE])


@given(st.integers(8, len(WHOLE) - 1), st.binary(min_size=1, max_size=40))
def test_a_damaged_video_is_read_or_refused(place: int, noise: bytes) -> None:
    damaged = WHOLE[:place] + noise + WHOLE[place + len(noise) :]
    with suppress(InvalidVideo):
        decode_video(damaged)
