"""`merged_replay.mp4`, decoded again: its frames, audio and subtitles."""

import io
import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from antiphon.shared_schemas.recording import ReplayState
from antiphon.shared_schemas.states import SessionKind
from support.timed_conversations import Recorded, TimedTalk, jpeg, tone

IN, OUT = 16_000, 24_000
RED, GREEN, BLUE = (200, 30, 20), (20, 190, 30), (20, 30, 200)


def pictures(path: Path) -> list[tuple[float, np.ndarray]]:
    """Every frame with its second; shape (height, width, 3)."""
    with av.open(str(path)) as container:
        return [
            (float(frame.pts * frame.time_base), frame.to_ndarray(format="rgb24"))
            for frame in container.decode(video=0)
        ]


def audio_of(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.concatenate([f.to_ndarray() for f in container.decode(audio=0)], axis=1)


def words(path: Path) -> list[tuple[float, float, str]]:
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(subtitles=0) if p.size > 2]
        return [
            (float(p.pts * p.time_base), float(p.duration * p.time_base), bytes(p)[2:].decode())
            for p in packets
        ]


def omni(*frames: bytes) -> TimedTalk:
    """A chunk per second, one frame each, answered in the middle."""
    talk = TimedTalk.prepared(SessionKind.OMNI_DUPLEX)
    for second, frame in enumerate(frames):
        talk.chunk(1.0 + second, tone(1.0, 300, IN), *([frame] if frame else []))
    talk.speak(2.1, tone(1.0, 700, OUT), text="Das ist ")
    talk.speak(3.1, tone(0.5, 900, OUT), text="schön, 你好.", end=True)
    return talk


def video(recorded: Recorded) -> Path:
    meta = recorded.meta
    assert meta.replay is ReplayState.READY
    assert meta.merged_replay_video == "merged_replay.mp4"
    assert recorded.recording.merged_replay_video == "merged_replay.mp4"  # type: ignore[union-attr]
    return recorded.folder / "merged_replay.mp4"


def assert_colour(picture: np.ndarray, colour: tuple[int, int, int]) -> None:
    centre = picture[picture.shape[0] // 2, picture.shape[1] // 2].astype(int)
    np.testing.assert_allclose(centre, colour, atol=12)


def test_it_contains_all_frames_and_audio(tmp_path: Path) -> None:
    frames = [jpeg(320, 240, colour) for colour in (RED, GREEN, BLUE, RED, GREEN)]
    recorded = omni(*frames).record(tmp_path)
    path = video(recorded)
    shown = pictures(path)
    assert [round(at, 3) for at, _ in shown] == [0.0, 1.0, 2.0, 3.0, 4.0]
    for (_, picture), colour in zip(shown, (RED, GREEN, BLUE, RED, GREEN), strict=True):
        assert picture.shape == (240, 320, 3)
        assert_colour(picture, colour)
    with av.open(str(path)) as container:
        assert container.duration / 1e6 == pytest.approx(5.0, abs=0.05)
        names = [stream.codec_context.name for stream in container.streams]
        assert names == ["h264", "aac", "mov_text"]
        last = container.streams.video[0]
        assert float(last.duration * last.time_base) == pytest.approx(5.0, abs=0.05)
    replay = recorded.replay().T / 32767
    sound = audio_of(path)
    for channel in (0, 1):
        energy, expected = (float(np.sum(np.square(x[channel]))) for x in (sound, replay))
        assert energy == pytest.approx(expected, rel=0.05)
    for second in range(5):  # each at its time, not only the total
        part = slice(second * OUT, (second + 1) * OUT)
        levels = [float(np.sqrt(np.mean(np.square(x[1, part])))) for x in (sound, replay)]
        assert levels[0] == pytest.approx(levels[1], abs=0.03)
    assert [(round(at, 2), text) for at, _, text in words(path)] == [
        (2.1, "Das ist"),
        (3.1, "Das ist schön, 你好."),
    ]
    head = path.read_bytes()
    assert head.index(b"moov") < head.index(b"mdat"), "the index comes first"


def test_sizes_may_be_odd_and_may_change(tmp_path: Path) -> None:
    """The first frame's size is used; a picture in portrait format is shown completely."""
    frames = [jpeg(321, 241, RED), jpeg(120, 300, GREEN), jpeg(2000, 700, BLUE), jpeg(1, 1, RED)]
    shown = pictures(video(omni(*frames).record(tmp_path)))
    assert {picture.shape for _, picture in shown} == {(240, 320, 3)}
    for (_, picture), colour in zip(shown, (RED, GREEN, BLUE, RED), strict=True):
        assert_colour(picture, colour)
    assert shown[1][1][120, 20].max() < 30, "the rest is black"


def test_large_frames_are_scaled_down(tmp_path: Path) -> None:
    (_, picture), *_ = pictures(video(omni(jpeg(4000, 3000, RED), b"").record(tmp_path)))
    assert picture.shape == (960, 1280, 3)


def test_several_frames_of_a_chunk_share_its_second(tmp_path: Path) -> None:
    talk = omni(jpeg(64, 48, RED))
    talk.chunk(2.0, tone(1.0, 300, IN), *(jpeg(64, 48, c) for c in (GREEN, BLUE, RED, GREEN)))
    times = [round(at, 3) for at, _ in pictures(video(talk.record(tmp_path)))]
    assert times == [0.0, 1.0, 1.25, 1.5, 1.75]


def test_broken_frames_are_left_out(tmp_path: Path) -> None:
    good = jpeg(64, 48, BLUE)
    frames = [b"\xff\xd8 no picture", good, good[: len(good) // 2], b"", good]
    shown = pictures(video(omni(*frames).record(tmp_path)))
    assert [round(at) for at, _ in shown] == [1, 4]


def odd_exif() -> bytes:
    """Portrait format, with a width that is not a number: Pillow raises `struct.error`."""
    odd = [struct.pack("<HHI4s", 0x0100, 2, 4, b"abc\0"), struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)]
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(odd)) + b"".join(odd) + bytes(4)
    file = io.BytesIO()
    Image.new("RGB", (64, 48), RED).save(file, "JPEG", exif=exif)
    return file.getvalue()


def endless_scans() -> bytes:
    """A progressive JPEG that repeats its scans: 33 bytes, 10 ms each time."""
    file = io.BytesIO()
    Image.new("RGB", (64, 48), RED).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + 40 * last + data[-2:]


def large_text() -> bytes:
    """A PNG whose text chunks unpack to some MiB."""
    texts = PngImagePlugin.PngInfo()
    for n in range(3):
        texts.add_text(f"n{n}", "a" * 1_000_000, zip=True)
    file = io.BytesIO()
    Image.new("RGB", (64, 48), RED).save(file, "PNG", pnginfo=texts)
    return file.getvalue()


@pytest.mark.parametrize("make", [odd_exif, endless_scans, large_text])
def test_a_hostile_frame_is_left_out_alone(tmp_path: Path, make: Callable[[], bytes]) -> None:
    hostile, good = make(), jpeg(64, 48, BLUE)
    recorded = omni(hostile, good, hostile, good).record(tmp_path)
    assert [round(at) for at, _ in pictures(video(recorded))] == [1, 3]


@pytest.mark.parametrize(
    ("frame", "frames", "times"),
    [
        pytest.param(jpeg(64, 48, RED), 40, [n / 10 for n in range(10)], id="many"),
        pytest.param(jpeg(4096, 2048, RED, "PNG"), 4, [0.0, 0.75], id="large"),
        pytest.param(jpeg(64, 48, RED) + bytes(2**20), 4, [0.0, 0.75], id="of_many_bytes"),
    ],
)
def test_frames_that_cost_too_much_are_left_out(
    tmp_path: Path, frame: bytes, frames: int, times: list[float]
) -> None:
    """Other sessions wait for the same thread."""
    talk = omni(b"")
    talk.chunk(2.0, tone(1.0, 300, IN), *[frame] * frames)
    shown = [at for at, _ in pictures(video(talk.record(tmp_path)))]
    assert shown == pytest.approx([1.0 + at for at in times], abs=0.001)


def test_the_last_valid_frame_is_shown_to_the_end(tmp_path: Path) -> None:
    path = video(omni(jpeg(64, 48, GREEN), b"no picture", b"", b"", b"").record(tmp_path))
    assert len(pictures(path)) == 1
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert float(stream.duration * stream.time_base) == pytest.approx(5.0, abs=0.05)


def test_a_frame_is_shown_upright(tmp_path: Path) -> None:
    """Phones rotate the camera and store that in the file."""
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (64, 32), RED).save(file, "JPEG", exif=exif)
    ((_, picture),) = pictures(video(omni(file.getvalue()).record(tmp_path)))
    assert picture.shape == (64, 32, 3)


@pytest.mark.parametrize("frames", [(b"", b""), (b"nothing", b"\xff\xd8")])
def test_without_a_frame_there_is_only_the_wav(tmp_path: Path, frames: tuple[bytes, ...]) -> None:
    recorded = omni(*frames).record(tmp_path)
    meta = recorded.meta
    assert (meta.replay, meta.merged_replay) == (ReplayState.READY, "merged_replay.wav")
    assert meta.merged_replay_video is None
    assert not (recorded.folder / "merged_replay.mp4").exists()


def test_a_repeated_merge_gives_the_same_file(tmp_path: Path) -> None:
    frames = [jpeg(320, 240, colour) for colour in (RED, GREEN, BLUE)]
    one, other = (omni(*frames).record(tmp_path / name) for name in ("a", "b"))
    assert video(one).read_bytes() == video(other).read_bytes()
