"""Turn-based prompts, compared with the ids, embeddings and logits of the reference; answers and rollback."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.conversations import text_context
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    ANSWER_OPENING,
    USER_CLOSING,
    AudioClip,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    TurnWindow,
    in_portions,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import TurnConversation
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import (
    clip_mels,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_CLIPS,
    MAX_PICTURES,
    MAX_RAGGED_TOKENS,
    EncodeClips,
    EncodeImages,
    Feed,
)
from antiphon.inference_worker.engines.types import ContextFull, EngineError
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CLOSE, LOGITS
from support.minicpmo.network_parts import runner_of
from support.minicpmo.step_recorder import GREEDY, Recorder, session_of


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, speech_context=64, invariant=True)


def clip(name: str) -> AudioClip:
    return AudioClip(clip_mels(golden_set.waves()[name]))


def check(recorder: Recorder, name: str, feeds_seen: int = 0) -> None:
    """The feed after `feeds_seen`, with all portions, has the reference's ids, embeddings and logits."""
    want = golden_set.tensors("h_chat")
    later = recorder.of(Feed)[feeds_seen:]
    last = next(n for n, (step, _) in enumerate(later) if step.want_logits)
    fed = later[last][1]
    ids, embeds = recorder.embeds([step for step, _ in later[: last + 1]])
    assert ids == want[f"{name}.input_ids"].tolist()
    rows = want[f"{name}.inputs_embeds"]
    assert_close(embeds[: len(rows)], rows, **CLOSE)
    assert_close(fed.logits, want[f"{name}.last_logits"], **LOGITS)


VOICE = [
    "Clone the voice in the provided audio prompt.",
    "As an assistant, you will speak using this voice style.",
]


def test_a_whole_chat(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    recorder, session = Recorder(runner), session_of(tokenizer)
    messages = [
        ("system", [VOICE[0], clip("w_ref"), VOICE[1]]),
        ("user", [clip("w_user")]),
    ]
    recorder.run(session.chat(messages, generation_prompt=False))
    check(recorder, "nonstreaming")
    assert session.length == golden_set.facts("h_chat")["nonstreaming"]["kv_len_after"]


def test_a_chat_with_a_sliced_picture(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    recorder, session = Recorder(runner), session_of(tokenizer)
    picture = slice_image(golden_set.image("b"), SliceConfig(), 9)
    message = ("user", [picture, "what is this? ", clip("w_user")])
    recorder.run(session.chat([message], joint="", generation_prompt=False))
    check(recorder, "nonstreaming_omni_image")


def test_the_system_prompt_of_a_conversation(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    recorder, session = Recorder(runner), session_of(tokenizer)
    recorder.run(session.system([VOICE[0], clip("w_ref"), VOICE[1]]))
    check(recorder, "streaming_red20.0_system")


def test_openings(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    facts = golden_set.facts("h_chat")
    assert facts["generation_prompt_streaming"]["text"] == USER_CLOSING + ANSWER_OPENING
    session = session_of(tokenizer)
    recorder = Recorder(runner)
    recorder.run(session.user(["hello"]))
    recorder.run(session.open_answer())
    recorder.run(session.generate(GREEDY, 3))
    assert session._opening == facts["user_turn_start_after_generation"]["generation cut"]


def test_an_answer_streams_its_text(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    recorder, session = Recorder(runner), session_of(tokenizer)
    with pytest.raises(EngineError, match="a prompt must come"):
        recorder.run(session.generate(GREEDY, 4))
    recorder.run(session.chat([("user", ["hello\0 the world"])]))
    texts: list[str] = []
    answer = recorder.run(session.generate(GREEDY, 6, texts.append))
    assert len(answer.tokens) <= 6
    assert texts[-1] == answer.text
    assert all(later.startswith(sooner) for sooner, later in pairwise(texts))
    before = session.length
    recorder.run(session.user(["more"]))
    stopped = recorder.run(session.generate(GREEDY, 6, stopped=lambda: True))
    assert stopped.cut
    assert stopped.tokens == ()
    assert session.length > before


def test_rollback_restores_everything(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    session = session_of(tokenizer)
    recorder = Recorder(runner)
    recorder.run(session.system(["S"]))
    recorder.run(session.user([clip("w_ref")]))
    mark = session.bookmark()

    def go_on() -> tuple[torch.Tensor, str]:
        fed = recorder.run(session.user([clip("w_user")]))
        recorder.run(session.open_answer())
        return fed.logits, recorder.run(session.generate(GREEDY, 5)).text

    first_logits, first_text = go_on()
    session.rollback(mark)
    assert session.length == mark.length
    second_logits, second_text = go_on()
    assert torch.equal(first_logits, second_logits)
    assert first_text == second_text


def test_whole_turns_are_dropped(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    """The cache holds the system prompt and the later turns, as if the first had not been."""
    window = TurnWindow(counts_as_reference=False)
    session = TurnConversation(1, tokenizer, capacity=400, window=window)
    recorder = Recorder(runner)
    recorder.run(session.system(["S"]))
    starts = []
    for _ in range(3):
        starts.append(session.length)
        recorder.run(session.user([clip("w_ref")]))
        recorder.run(session.open_answer())
        recorder.run(session.generate(GREEDY, 3))
    system, second, whole = starts[0], starts[1], session.length
    recorder.run(session.make_room(400 - whole))
    assert session.length == whole
    values = [cached[1, second:whole].clone() for cached in runner.text_cache.values]
    high = whole - 1  # the window drops turns until three quarters of it remain
    assert whole > high * 3 // 4 >= system + whole - second
    recorder.run(session.make_room(400 - high))
    assert session.length == system + whole - second
    for cached, before in zip(runner.text_cache.values, values, strict=True):
        assert torch.equal(cached[1, system : session.length], before)
    mark = session.bookmark()
    recorder.run(session.user([clip("w_ref")]))
    session.rollback(mark)
    assert session.bookmark() == mark
    recorder.run(session.make_room(400 - (session.length - 1)))
    assert session.length == system + whole - starts[2]
    recorder.run(session.make_room(400 - system))
    assert session.length == system


def test_a_rollback_keeps_what_an_utterance_dropped(
    tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    """The cache is that before the utterance, without the tokens that left during its prefill."""
    session = TurnConversation(1, tokenizer, capacity=512, window=TurnWindow(high=120, low=80))
    recorder = Recorder(runner)
    recorder.run(session.system(["S"]))
    system = session.length
    for _ in range(3):
        recorder.run(session.user(["hello the world"]))
        recorder.run(session.open_answer())
        recorder.run(session.replay_answer((1, 2, 3), spoken=True))
    before, mark = session.length, session.bookmark()
    values = [cached[1, :before].clone() for cached in runner.text_cache.values]
    recorder.run(session.user([clip("w_ref")]))
    gone = session.window.dropped
    assert 0 < gone < before - system
    session.rollback(mark)
    assert session.length == before - gone
    for cached, old in zip(runner.text_cache.values, values, strict=True):
        assert torch.equal(cached[1, :system], old[:system])
        assert torch.equal(cached[1, system : session.length], old[system + gone :])
    session.rollback(mark)
    assert session.length == before - gone


def test_a_prompt_that_does_not_fit_is_refused(tokenizer: Tokenizer, runner: ModelRunner) -> None:
    session = session_of(tokenizer, capacity=40)
    with pytest.raises(ContextFull):
        Recorder(runner).run(session.chat([("user", ["long " * 50])]))
    assert session.length == 0


@pytest.mark.parametrize(
    ("lengths", "portions"),
    [
        ([], []),
        ([0, 0], []),
        ([4], [[4]]),
        ([5], [[4], [1]]),
        ([9, 2], [[4], [4], [1, 2]]),
        ([2, 2, 3], [[2, 2], [3]]),
        ([1, 0, 7, 1], [[1, 3], [4], [1]]),
    ],
)
def test_portions_of_a_prompt(lengths: list[int], portions: list[list[int]]) -> None:
    tokens = iter(range(100))
    pieces = [tuple(next(tokens) for _ in range(length)) for length in lengths]
    got = [[p for p in portion if len(p)] for portion in in_portions(pieces, 4)]
    assert [[len(piece) for piece in portion] for portion in got] == portions
    assert [t for portion in got for piece in portion for t in piece] == [
        t for p in pieces for t in p
    ]


def test_a_long_prompt_runs_in_portions(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In portions, its scores are those of the whole prompt."""
    long = runner_of(network, tokenizer, context=3000, speech_context=64, invariant=True)
    scores, sizes = [], []
    for most in (4000, text_context.MAX_FEED_TOKENS):
        monkeypatch.setattr(text_context, "MAX_FEED_TOKENS", most)
        recorder, session = Recorder(long), session_of(tokenizer, capacity=3000)
        fed = recorder.run(session.chat([("user", ["long " * 480])]))
        scores.append(fed.logits)
        sizes.append([step.size for step, _ in recorder.of(Feed)])
    assert [len(parts) for parts in sizes] == [1, 12]
    assert sum(sizes[0]) == sum(sizes[1])
    assert set(sizes[1][:-1]) == {MAX_RAGGED_TOKENS}
    assert_close(*scores, **LOGITS)


def test_many_images_are_encoded_in_portions(runner: ModelRunner) -> None:
    pictures = [
        slice_image(golden_set.image(name), SliceConfig(), most)
        for name, most in (("a", 1), ("b", 4))
    ]
    recorder = Recorder(runner)
    seen = recorder.run(text_context.encode_images(pictures))
    slices = sum(len(picture.pixels) for picture in pictures)
    portions = [min(MAX_PICTURES, slices - n) for n in range(0, slices, MAX_PICTURES)]
    assert [len(step.pixels) for step, _ in recorder.of(EncodeImages)] == portions
    assert len(portions) > 1
    want = golden_set.tensors("b_vision")
    assert_close(
        torch.stack(seen), torch.cat([want["a.max1.embeds"], want["b.max4.embeds"]]), **CLOSE
    )


def test_many_clips_are_encoded_in_portions(runner: ModelRunner) -> None:
    """All are padded like the longest, so the portions change nothing."""
    wave = golden_set.waves()["w31"]
    mels = [clip_mels(wave[: 40000 - 1000 * n])[0] for n in range(MAX_CLIPS + 2)]
    recorder = Recorder(runner)
    heard = recorder.run(text_context.encode_clips(mels))
    assert [len(step.mels) for step, _ in recorder.of(EncodeClips)] == [MAX_CLIPS, 2]
    [together] = runner.run([EncodeClips(mels)])
    for one, other in zip(heard, together, strict=True):
        assert_close(one, other, **CLOSE)
