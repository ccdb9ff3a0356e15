"""Videos in a chat: how they are split, and the resulting prompt."""

import io
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from av.video.frame import VideoFrame
from PIL import Image
from torch.testing import assert_close

from antiphon.inference_worker.engines.common.video import VideoBudget
from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    AudioClip,
    PromptPart,
    ReadOptions,
    read_message,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.preprocess.videos import (
    MIN_CLIP_SAMPLES,
    SHEET_GAP,
    contact_sheet,
    read_video,
    segment_starts,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EncodeClips, Feed
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Role,
    TextPart,
    VideoPart,
)
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import Recorder, session_of
from support.video_files import video

READING = ReadOptions(settings=SliceConfig(), merge_audio=True)


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, speech_context=64, invariant=True)


def parts_of(*sent: object) -> list[PromptPart]:
    return read_message(ConversationMessage(Role.USER, tuple(sent)), READING, "messages.0.content")  # type: ignore[arg-type]


def slow_video(times: list[float]) -> bytes:
    """One grey frame at each of these seconds."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="webm") as container:
        stream = container.add_stream("vp8", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for time in times:
            frame = VideoFrame.from_ndarray(np.full((48, 64, 3), 80, np.uint8), format="rgb24")
            frame.pts, frame.time_base = round(time * 10), Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def test_a_segment_is_one_second_of_frame_and_audio() -> None:
    sound = golden_set.waves()["w_user"][: 5 * INPUT_RATE // 2]
    segments = list(read_video(video(seconds=3, sound=sound), 1))
    assert [s.frame.size for s in segments] == [(64, 48)] * 3
    assert [s.between for s in segments] == [None] * 3
    lengths = [len(s.audio) for s in segments if s.audio is not None]
    assert lengths[:2] == [INPUT_RATE] * 2
    assert INPUT_RATE // 2 <= lengths[2] < INPUT_RATE


def test_audio_that_ends_early_and_a_silent_video() -> None:
    """As in the reference, only the last segment is padded, to the shortest clip with an embedding."""
    short = golden_set.waves()["w_user"][: INPUT_RATE // 2]
    first, second, third = read_video(video(seconds=3, sound=short), 1)
    assert first.audio is not None
    assert second.audio is not None
    assert third.audio is not None
    assert (len(first.audio), len(second.audio), len(third.audio)) == (8000, 0, 1600)
    assert not third.audio.any()
    assert [segment.audio for segment in read_video(video(), 1)] == [None, None]


def test_frames_between_seconds_form_a_contact_sheet() -> None:
    segments = list(read_video(video(seconds=2), 5))
    sizes = [s.between.size for s in segments if s.between is not None]
    assert sizes == [(2 * 64 + SHEET_GAP, 2 * 48 + SHEET_GAP)] * 2


@pytest.mark.parametrize(
    ("count", "size", "grid"),
    [
        (1, (40, 30), (1, 1)),
        (2, (40, 30), (1, 2)),
        (2, (30, 40), (2, 1)),
        (3, (90, 20), (1, 3)),
        (3, (20, 90), (3, 1)),
        (4, (40, 30), (2, 2)),
        (7, (40, 30), (7, 1)),
    ],
)
def test_contact_sheets_are_nearly_square(
    count: int, size: tuple[int, int], grid: tuple[int, int]
) -> None:
    pictures = [Image.new("RGB", size, (20 * n + 20, 0, 0)) for n in range(count)]
    laid = contact_sheet(pictures)
    assert laid.size == tuple(n * s + (n - 1) * SHEET_GAP for n, s in zip(grid, size, strict=True))
    columns = grid[0]
    for n in range(count):
        row, column = divmod(n, columns)
        middle = (
            column * (size[0] + SHEET_GAP) + size[0] // 2,
            row * (size[1] + SHEET_GAP) + size[1] // 2,
        )
        assert laid.getpixel(middle) == (20 * n + 20, 0, 0)
    if count > 1:
        between = (size[0] + 1, 0) if columns > 1 else (0, size[1] + 1)
        assert laid.getpixel(between) == (0, 0, 0)


def test_a_long_video_has_64_segments() -> None:
    """Audio belongs to them without a gap, also where the contact sheets have other frames."""
    sound = np.zeros(70 * INPUT_RATE, dtype=np.float32)
    segments = list(read_video(video(seconds=70, rate=4, sound=sound), 2))
    assert len(segments) == 64
    lengths = [len(segment.audio) for segment in segments if segment.audio is not None]
    assert sum(lengths[:-1]) == int(69.9 * INPUT_RATE)
    assert lengths[-1] == MIN_CLIP_SAMPLES
    assert all(segment.between is not None for segment in segments[:-1])
    assert segments[-1].between is None


@pytest.mark.parametrize(
    ("seconds", "count", "last"),
    [
        (0.0, 1, 0.0),
        (0.9, 1, 0.0),
        (1.0, 1, 0.0),
        (1.1, 2, 1.0),
        (64.0, 64, 63.0),
        (64.1, 64, 63.9),
    ],
)
def test_starts_of_segments(seconds: float, count: int, last: float) -> None:
    starts = segment_starts(seconds)
    assert (len(starts), starts[0], starts[-1]) == (count, 0.0, last)


def test_a_video_with_few_frames_has_a_segment_for_each() -> None:
    assert len(list(read_video(slow_video([0.0, 2.0, 7.0, 7.1, 7.2]), 1))) == 3


def test_the_prompt_of_a_video(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    """Per second a numbered image, ten embeddings of audio, then the numbered contact sheet."""
    sound = golden_set.waves()["w_user"][: 2 * INPUT_RATE]
    film = VideoPart(video(seconds=2, sound=sound), stack_frames=3)
    parts = parts_of(TextPart("look: "), film, TextPart("well?"))
    assert [type(part) for part in parts] == [str, *[SlicedImage, AudioClip, SlicedImage] * 2, str]
    recorder, session = Recorder(runner), session_of(tokenizer)
    recorder.run(session.chat([("user", parts)], joint="", generation_prompt=False))
    ids = tokenizer.ids
    want = tokenizer.encode("<|im_start|>user\nlook: ")
    for second in range(2):
        for number in (2 * second, None, 2 * second + 1):
            if number is None:
                want += [ids.audio, *[-1] * 10, ids.audio_end]
            else:
                want += tokenizer.encode(f"<image_id>{number}</image_id>")
                want += [ids.image, *[-1] * 64, ids.image_end]
    want += tokenizer.encode("well?<|im_end|>\n")
    fed = [token for step, _ in recorder.of(Feed) for token in fed_ids(step)]
    assert fed == want
    assert len(want) == session.length


def fed_ids(step: Feed) -> list[int]:
    return [t for p in step.pieces for t in (p if isinstance(p, tuple) else [-1] * len(p))]


def test_the_audio_of_a_message_is_encoded_as_one(
    tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    """Audio in two parts has the embeddings of the whole, not those of each part alone."""
    wave = golden_set.waves()["w_user"]
    whole, halves = AudioPart(wave[:32000].tobytes()), [wave[:16000], wave[16000:32000]]
    together = heard_in(tokenizer, runner, [whole])
    apart = heard_in(tokenizer, runner, [AudioPart(half.tobytes()) for half in halves])
    alone = heard_in(tokenizer, runner, [AudioPart(halves[1].tobytes())])
    assert [len(rows) for rows in (together, apart, alone)] == [20, 20, 10]
    assert_close(apart, together, **CLOSE)
    assert (apart[10:] - alone).abs().max() > 1e-3


def heard_in(tokenizer: Tokenizer, runner: ModelRunner, sent: list[AudioPart]) -> torch.Tensor:
    recorder, session = Recorder(runner), session_of(tokenizer)
    recorder.run(session.chat([("user", parts_of(*sent))]))
    assert len(recorder.of(EncodeClips)) == 1
    pieces = (piece for step, _ in recorder.of(Feed) for piece in step.pieces)
    return torch.cat([piece for piece in pieces if isinstance(piece, torch.Tensor)])


def test_videos_beyond_the_cost_limit_of_a_request_are_refused_by_name() -> None:
    reading = ReadOptions(settings=SliceConfig(), videos=VideoBudget(packets=30))
    twice = ConversationMessage(Role.USER, (VideoPart(video()), VideoPart(video())))
    with pytest.raises(UnsupportedContent, match="send fewer frames") as refused:
        read_message(twice, reading, "messages.0.content")
    assert refused.value.field == "messages.0.content.1"
