from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.common.video import (
    InvalidVideo,
    VideoBudget,
    VideoLimits,
    frames_at,
    read_track,
)
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import INPUT_RATE
from support.sound_files import SOUND_FILES
from support.video_files import index_first, turned, video, without_ftyp

TONE = np.sin(2 * np.pi * 440 * np.arange(2 * INPUT_RATE) / INPUT_RATE).astype(np.float32) / 2


def levels_at(data: bytes, times: list[float]) -> list[tuple[float, int]]:
    """Each yielded time with the level of its frame. Each frame of these videos is 10 lighter than the last."""
    shown = frames_at(data, times)
    return [(time, round(float(np.asarray(picture).mean()))) for time, picture in shown]


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_the_length_the_audio_and_the_frames_that_are_shown(kind: str) -> None:
    data = video(seconds=2, sound=TONE, kind=kind)
    track = read_track(data)
    assert track.seconds == pytest.approx(2.0, abs=0.002)
    assert track.audio.dtype == np.float32
    assert abs(len(track.audio) - len(TONE)) < INPUT_RATE // 5
    assert 0.3 < np.abs(track.audio).max() < 0.7
    shown = levels_at(data, [0.0, 0.55, 1.0])
    assert [time for time, _ in shown] == [0.0, 0.55, 1.0]
    for (_, level), want in zip(shown, (0, 50, 100), strict=True):
        assert abs(level - want) <= 4


def test_audio_ends_where_the_file_says() -> None:
    """AAC fills its last packet with silence."""
    assert len(read_track(video(sound=TONE[:20_000])).audio) == 20_000


def test_a_frame_is_yielded_once() -> None:
    """Also at the end, where the last frame remains."""
    data = video(seconds=1, rate=2)
    assert [time for time, _ in levels_at(data, [0.0, 0.2, 0.5, 0.9, 3.0])] == [0.0, 0.5]
    assert levels_at(data, []) == []


def test_a_silent_video_and_one_of_which_only_the_sound_is_wanted() -> None:
    assert len(read_track(video()).audio) == 0
    track = read_track(video(sound=TONE), VideoBudget(pixels=1), with_frames=False)
    assert track.seconds == 0.0
    assert len(track.audio) > INPUT_RATE


def test_large_pictures_are_scaled_down() -> None:
    shown = frames_at(video(seconds=1, size=(640, 320)), [0.0], limits=VideoLimits(side=128))
    [(_, picture)] = shown
    assert picture.size == (128, 64)


@pytest.mark.parametrize(
    ("limits", "text"),
    [(VideoLimits(seconds=1.0), "longer than 1 s"), (VideoLimits(pixels=1000), "64 x 48")],
)
def test_videos_beyond_the_limits_are_refused(limits: VideoLimits, text: str) -> None:
    with pytest.raises(InvalidVideo, match=text):
        read_track(video(), limits=limits)


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
    assert read_track(crowded, budget).seconds == pytest.approx(0.1)
    with pytest.raises(InvalidVideo, match=text):
        read_track(crowded, budget)


def test_a_cancelled_request_stops_between_two_frames() -> None:
    asked = iter([False, False, True])
    with pytest.raises(EngineError, match="no longer waits"):
        list(frames_at(video(), [0.0, 1.0], VideoBudget(cancelled=lambda: next(asked))))


def test_a_cancelled_request_stops_between_two_packets() -> None:
    asked = iter([False, False, True])
    with pytest.raises(EngineError, match="no longer waits"):
        read_track(video(), VideoBudget(cancelled=lambda: next(asked)))


def test_long_audio_under_a_short_picture_is_refused() -> None:
    with pytest.raises(InvalidVideo, match="longer than"):
        read_track(video(seconds=0.5, sound=TONE), limits=VideoLimits(seconds=1.0))


@pytest.mark.parametrize(
    "data", [b"", b"#EXTM3U\nhttp://x/y.ts\n", b"ffconcat version 1.0", video()[:300]]
)
def test_files_that_are_not_videos_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidVideo):
        read_track(data)
    with pytest.raises(InvalidVideo):
        list(frames_at(data, [0.0]))


ONE = 0x10000
TURNED = {
    "upright": ((ONE, 0, 0, ONE), "red green blue white"),
    "by 90 degrees": ((0, ONE, -ONE, 0), "blue red white green"),
    "by 180 degrees": ((-ONE, 0, 0, -ONE), "white blue green red"),
    "by 270 degrees": ((0, -ONE, ONE, 0), "green white red blue"),
    "mirrored": ((-ONE, 0, 0, ONE), "green red white blue"),
    "upside down": ((ONE, 0, 0, -ONE), "blue white red green"),
    "mirrored by 90 degrees": ((0, ONE, ONE, 0), "red blue green white"),
    "mirrored by 270 degrees": ((0, -ONE, -ONE, 0), "white green blue red"),
    "by 80 degrees": ((11_381, 64_540, -64_540, 11_381), "blue red white green"),
    "not at all": ((0, 0, 0, 0), "red green blue white"),
}
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}


@pytest.mark.parametrize(("matrix", "corners"), TURNED.values(), ids=TURNED.keys())
def test_pictures_are_turned_as_players_turn_them(
    matrix: tuple[int, int, int, int], corners: str
) -> None:
    """`corners`: top left, top right, bottom left, bottom right. FFmpeg's own program agrees."""
    picture = np.zeros((48, 64, 3), np.uint8)
    for number, colour in enumerate(COLOURS.values()):
        row, column = divmod(number, 2)
        picture[row * 24 : row * 24 + 24, column * 32 : column * 32 + 32] = colour
    data = turned(video(seconds=0.5, picture=picture), *matrix)
    [(_, shown)] = frames_at(data, [0.0])
    sideways = abs(matrix[1]) > abs(matrix[0])
    assert shown.size == ((48, 64) if sideways else (64, 48))
    seen = [
        min(COLOURS, key=lambda name: sum(abs(np.subtract(pixel, COLOURS[name]))))
        for pixel in (
            shown.getpixel((x, y)) for y in (8, shown.height - 8) for x in (8, shown.width - 8)
        )
    ]
    assert seen == corners.split()


@pytest.mark.parametrize("name", [b"wide", b"free", b"skip"])
def test_a_quicktime_film_without_ftyp(name: bytes) -> None:
    data = without_ftyp(video(sound=TONE), name)
    assert read_track(data).seconds == pytest.approx(2.0, abs=0.002)
    assert len(levels_at(data, [0.0, 1.0])) == 2


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_video_that_was_cut_off_is_read_to_its_end(kind: str) -> None:
    whole = video(sound=TONE, kind=kind)
    data = (index_first(whole) if kind == "mp4" else whole)[: len(whole) // 2]
    track = read_track(data)
    assert 0.5 < track.seconds < 1.5
    assert 0.5 < len(track.audio) / INPUT_RATE < 1.5
    assert [time for time, _ in levels_at(data, [0.0, 0.5, 1.9])] == [0.0, 0.5, 1.9]


def test_damaged_packets_are_skipped() -> None:
    data = bytearray(index_first(video(sound=TONE)))
    media = data.index(b"mdat")
    data[media + 500 : media + 700] = bytes(range(200))
    assert read_track(bytes(data)).seconds == pytest.approx(2.0, abs=0.002)
    assert len(levels_at(bytes(data), [0.0, 1.0])) == 2
    data[media + 4 :] = bytes(len(data) - media - 4)
    with pytest.raises(InvalidVideo, match="no frame of the video can be decoded"):
        list(frames_at(bytes(data), [0.0]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AAC in MP4", "no video stream, only sound"),
        ("Opus in WebM", "no video stream, only sound"),
        ("FLAC", "neither MP4, .* it is a FLAC file"),
    ],
)
def test_a_file_with_sound_only_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidVideo, match=text):
        read_track(SOUND_FILES[name].make())


def test_a_video_without_its_index_is_refused() -> None:
    with pytest.raises(InvalidVideo, match="it is damaged or cut off"):
        read_track(video(sound=TONE)[:-3000])


def test_frames_at_uneven_times_are_shown_when_they_are_due() -> None:
    """As cameras of phones and screens record in the dark, or while nothing moves."""
    data = video(rate=10, times=[0, 1, 2, 11, 12, 29])
    assert read_track(data).seconds == pytest.approx(3.0, abs=0.11)
    shown = levels_at(data, [0.15, 0.5, 1.15, 1.25, 2.0, 2.95])
    assert [time for time, _ in shown] == [0.15, 0.5, 1.15, 1.25, 2.95]
    for (_, level), want in zip(shown, (10, 20, 30, 40, 50), strict=True):
        assert abs(level - want) <= 4


WHOLE = video(seconds=1, sound=TONE[:INPUT_RATE])


@given(st.integers(8, len(WHOLE) - 1), st.binary(min_size=1, max_size=40))
def test_a_damaged_video_is_read_or_refused(place: int, noise: bytes) -> None:
    damaged = WHOLE[:place] + noise + WHOLE[place + len(noise) :]
    with suppress(InvalidVideo):
        read_track(damaged)
        list(frames_at(damaged, [0.0, 0.5]))
