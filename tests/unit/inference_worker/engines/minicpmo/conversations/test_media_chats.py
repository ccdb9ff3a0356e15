"""Chats with videos, clips and images, compared with the pixels, embeddings and logits of the reference."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    ReadOptions,
    read_message,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.preprocess.videos import read_video
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Feed
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE, LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import Recorder, session_of

FACTS = golden_set.facts_if_recorded("k_media_chats")
VIDEOS, CHATS = FACTS.get("videos", {}), FACTS.get("chats", {})
CONTEXT = 1200
SHIFTED = "clips_of_odd_length"
"""In this chat the reference shifts audio from one message into the next."""


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, context=CONTEXT, speech_context=64, invariant=True)


@pytest.mark.parametrize("name", sorted(VIDEOS))
def test_videos_are_split_like_in_the_reference(name: str) -> None:
    """Every picture has the reference's pixels, and every segment its length of sound."""
    facts, want = VIDEOS[name], golden_set.tensors("k_media_chats")
    segments = list(read_video(golden_set.video_bytes(facts["file"]), facts["stack_frames"]))
    assert len(segments) == facts["frames"]
    sound = [None if segment.audio is None else len(segment.audio) for segment in segments]
    assert sound == (facts["audio_samples"] or [None] * facts["frames"])
    for index, segment in enumerate(segments):
        for kind, picture in (("frame", segment.frame), ("sheet", segment.between)):
            key = f"{name}.{kind}{index}.every97th"
            assert (key in want) == (picture is not None)
            if picture is not None:
                assert torch.equal(thinned(picture), want[key])


def thinned(picture: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(picture).ravel()[::97].copy())


@pytest.mark.parametrize("name", sorted(set(CHATS) - {SHIFTED}))
def test_chats_with_several_media(tokenizer: Tokenizer, runner: ModelRunner, name: str) -> None:
    ids, embeds, logits, length = fed(tokenizer, runner, name)
    want = golden_set.tensors("k_media_chats")
    assert ids == want[f"{name}.input_ids"].tolist()
    assert length == CHATS[name]["kv_len_after"]
    assert_close(embeds[want[f"{name}.rows"]], want[f"{name}.embeds"], **CLOSE)
    assert_close(logits, want[f"{name}.last_logits"], **LOGITS)


@pytest.mark.skipif(not CHATS, reason="the set has no such chat")
def test_audio_of_odd_length_stays_in_its_message(
    tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    """The reference inserts the rows of all messages one after the other, so the surplus row of one message
    becomes the first of the next, and the last row is lost.
    """
    ids, embeds, _, _ = fed(tokenizer, runner, SHIFTED)
    want = golden_set.tensors("k_media_chats")
    assert ids == want[f"{SHIFTED}.input_ids"].tolist()
    rows, recorded = embeds[want[f"{SHIFTED}.rows"]], want[f"{SHIFTED}.embeds"]
    first = sum(end - start for start, end in CHATS[SHIFTED]["audio_bounds"][:2])
    assert_close(rows[:first], recorded[:first], **CLOSE)
    assert_close(rows[first:-1], recorded[first + 1 :], **CLOSE)


def fed(
    tokenizer: Tokenizer, runner: ModelRunner, name: str
) -> tuple[list[int], torch.Tensor, torch.Tensor, int]:
    """The ids and embeddings of a chat, the logits of its last position, and its length."""
    facts, waves = CHATS[name], golden_set.waves()
    reading = ReadOptions(
        settings=SliceConfig(), max_slices=facts["max_slice_nums"], merge_audio=True
    )
    history = [
        (role, read_message(message_of(role, parts, waves), reading, "messages"))
        for role, parts in facts["messages"]
    ]
    recorder, session = Recorder(runner), session_of(tokenizer, capacity=CONTEXT)
    joint = "" if facts["omni_mode"] else "\n"
    recorder.run(session.chat(history, joint=joint, generation_prompt=False))
    steps = recorder.of(Feed)
    ids, embeds = recorder.embeds([step for step, _ in steps])
    return ids, embeds, steps[-1][1].logits, session.length


def message_of(role: str, parts: list[Any], waves: dict[str, Any]) -> ConversationMessage:
    return ConversationMessage(Role(role), tuple(part_of(part, waves) for part in parts))


def part_of(part: list[Any], waves: dict[str, Any]) -> Part:
    match part:
        case ["text", text]:
            return TextPart(text)
        case ["image", name]:
            return ImagePart(golden_set.image_bytes(name))
        case ["audio", name, start, end]:
            return AudioPart(waves[name][start:end].tobytes())
        case ["video", name, stack_frames]:
            return VideoPart(golden_set.video_bytes(f"video_{name}.mp4"), stack_frames)
    raise ValueError(part)
