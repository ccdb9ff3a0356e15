"""The engine as a worker uses it: many sessions in one batch, failures, rebuilds, recovery."""

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import MAX_FEED_TOKENS
from antiphon.inference_worker.engines.minicpmo.model.audio import clip_embedding_count
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import HOP
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import EngineJob
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Feed
from antiphon.inference_worker.engines.minicpmo.views.duplex import MiniCPMODuplexView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    EngineError,
    EngineLoadError,
    PastUnit,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT, LOGITS

SLOTS = 4
OPTIONS = EngineOptions(slots=SLOTS, context_tokens=640, speech_tokens=256, device="cpu")
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)
PROMPT = golden_set.system_prompt("d_duplex_audio")


def ignore(_line: str) -> None: ...


def loaded(options: EngineOptions) -> MiniCPMOProcessor:
    processor = MiniCPMOProcessor(CHECKPOINT, options)
    processor.load(ignore)
    return processor


@pytest.fixture(scope="module")
def processor() -> Iterator[MiniCPMOProcessor]:
    engine = loaded(OPTIONS)
    yield engine
    engine.close()


def seconds(name: str, count: int) -> list[Samples]:
    wave = golden_set.waves()[name]
    return [wave[n * 16000 : (n + 1) * 16000] for n in range(count)]


def begin(processor: MiniCPMOProcessor, config: DuplexConfig = GREEDY) -> MiniCPMODuplexView:
    view = processor.set_duplex_mode()
    assert isinstance(view, MiniCPMODuplexView)
    view.prepare(PROMPT, config)
    return view


def unit(view: MiniCPMODuplexView, audio: Samples, frames: Sequence[bytes] = ()) -> UnitResult:
    view.prefill(audio, frames)
    result = view.generate()
    view.finalize()
    return result


def talk(view: MiniCPMODuplexView, audio: list[Samples], frames: Sequence[bytes] = ()) -> Any:
    """The results of a conversation, its final cache and the logits of its units."""
    results, logits = [], []
    for part in audio:
        view.prefill(part, frames)
        assert view._session is not None
        logits.append(view._session._pending)
        results.append(view.generate())
        view.finalize()
    said = [(r.is_listen, r.text, r.end_of_turn, r.memo, r.kv_cache_length) for r in results]
    slot, length = view._lease.slot, view.kv_cache_length
    runner = view._parts.engine._runner
    bits = torch.stack([keys[slot, :length] for keys in runner.text_cache.keys])
    return said, (bits.clone(), torch.stack(logits))


def test_tokens_of_a_unit_are_counted_by_kind(processor: MiniCPMOProcessor) -> None:
    view = begin(processor)
    assert view.take_usage() == TokenUsage(input_text=view.kv_cache_length)
    for audio in seconds("w_user", 2):
        before = view.kv_cache_length
        view.prefill(audio, [golden_set.image_bytes("b")])
        added = view.kv_cache_length - before
        result = view.generate()
        view.finalize()
        assert view.take_usage() == TokenUsage(
            input_text=added - 64 - 10,
            input_audio=10,
            input_vision=64,
            output_text=result.n_tokens,
        )
    view.cleanup()


def test_other_sessions_change_no_bit(processor: MiniCPMOProcessor) -> None:
    """Alone in its slot, or with three others that get other input: the same bits."""
    ours, frame = seconds("w_duplex_audio", 6), golden_set.image_bytes("a")
    alone = begin(processor)
    want_said, want_bits = talk(alone, ours)
    alone.cleanup()
    views = [begin(processor) for _ in range(SLOTS)]
    assert views[0]._lease.slot == alone._lease.slot
    inputs: list[tuple[list[Samples], list[bytes]]] = [
        (ours, []),
        (seconds("w_window", 6), []),
        (seconds("w_omni", 4), [frame]),
        (seconds("w62", 5), []),
    ]
    with ThreadPoolExecutor(SLOTS) as threads:
        started = [
            threads.submit(talk, view, *one) for view, one in zip(views, inputs, strict=True)
        ]
        outcomes = [future.result() for future in started]
    said, bits = outcomes[0]
    assert said == want_said
    assert any(not listened for listened, *_ in said)
    assert all(torch.equal(*pair) for pair in zip(bits, want_bits, strict=True))
    for view in views:
        view.cleanup()


def test_other_sessions_change_no_word_with_fitting_shapes() -> None:
    engine = loaded(OPTIONS.model_copy(update={"fixed_shapes": False}))
    ours = seconds("w_duplex_audio", 6)
    alone = begin(engine)
    want, _ = talk(alone, ours)
    alone.cleanup()
    views = [begin(engine) for _ in range(SLOTS)]
    inputs = [ours, *(seconds(name, 5) for name in ("w_window", "w_omni", "w62"))]
    with ThreadPoolExecutor(SLOTS) as threads:
        outcomes = list(threads.map(talk, views, inputs))
    assert outcomes[0][0] == want
    engine.close()


def test_steps_of_several_sessions_share_a_batch(
    processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [begin(processor) for _ in range(SLOTS)]
    engine = views[0]._parts.engine
    runner = engine._runner
    sizes: list[int] = []
    run = runner.run

    def counted(steps: Sequence[Any]) -> Sequence[Any]:
        sizes.append(len(steps))
        return run(steps)

    def hold() -> Generator[Any, Any, None]:
        """Keeps the engine's thread busy until each session has sent its first step."""
        while engine._inbox.qsize() < SLOTS:
            time.sleep(0.001)
        yield from ()

    monkeypatch.setattr(runner, "run", counted)
    together = threading.Barrier(SLOTS)

    def one(view: MiniCPMODuplexView) -> None:
        for audio in seconds("w_duplex_audio", 3):
            together.wait()
            unit(view, audio)

    engine.submit(EngineJob(hold()))
    with ThreadPoolExecutor(SLOTS) as threads:
        list(threads.map(one, views))
    assert max(sizes) == SLOTS
    assert sum(sizes) > 1.5 * len(sizes)
    for view in views:
        view.cleanup()


def test_a_slot_is_clean_for_the_next_session(processor: MiniCPMOProcessor) -> None:
    first = begin(processor)
    want, _ = talk(first, seconds("w_omni", 3))
    runner, slot = first._parts.engine._runner, first._lease.slot
    runner.text_cache.values[0][slot, 7] = float("nan")
    with pytest.raises(EngineError, match="not finite"):
        unit(first, seconds("w_omni", 4)[3])
    first.cleanup()
    for cache in (runner.text_cache, runner.audio_cache, runner.speech_cache):
        assert not any(keys[slot, : cache.positions].any() for keys in cache.keys)
    second = begin(processor)
    assert second._lease.slot == slot
    assert talk(second, seconds("w_omni", 3))[0] == want
    second.cleanup()


def test_f24_values_that_are_not_finite_end_only_their_session(
    processor: MiniCPMOProcessor,
) -> None:
    ours = seconds("w_duplex_audio", 4)
    alone = begin(processor)
    want, _ = talk(alone, ours)
    alone.cleanup()
    good, bad = begin(processor), begin(processor)
    bad._parts.engine._runner.text_cache.values[0][bad._lease.slot, 3] = float("nan")
    with ThreadPoolExecutor(2) as threads:
        fails = threads.submit(talk, bad, ours)
        works = threads.submit(talk, good, ours)
        with pytest.raises(EngineError, match="not finite"):
            fails.result()
        assert works.result()[0] == want
    with pytest.raises(EngineError, match="readable picture"):
        good.prefill(ours[0], [b"no picture"])
    assert unit(good, ours[0]).kv_cache_length > 0
    for view in (good, bad):
        view.cleanup()


def test_a_full_context_is_reported_before_anything_is_fed(processor: MiniCPMOProcessor) -> None:
    view = begin(processor)
    [audio] = seconds("w31", 1)
    frame = golden_set.image_bytes("c")
    view.prefill(audio, [frame], max_slice_nums=9)
    view.generate()
    view.finalize()
    length = view.kv_cache_length
    with pytest.raises(ContextFull):
        view.prefill(audio, [frame], max_slice_nums=9)
    assert view.kv_cache_length == length
    assert unit(view, audio).kv_cache_length > length
    view.cleanup()


def past_of(audio: Samples, result: UnitResult, frames: tuple[bytes, ...] = ()) -> PastUnit:
    return PastUnit(
        audio=audio,
        frames=frames,
        is_listen=result.is_listen,
        text=result.text,
        end_of_turn=result.end_of_turn,
        memo=result.memo,
    )


@pytest.mark.parametrize("window", ["off", "basic", "context"])
def test_replay_rebuilds_the_context(window: Any) -> None:
    changes = {
        "window": window,
        "basic_high_tokens": 100,
        "basic_low_tokens": 70,
        "context_max_units": 3,
        "context_previous_max_tokens": 7,
    }
    engine = loaded(OPTIONS.model_copy(update=changes))
    audio = seconds("w_window", 8)
    view = begin(engine)
    results = [unit(view, part) for part in audio[:-1]]
    assert any(not result.is_listen for result in results)
    again = begin(engine)
    runner = again._parts.engine._runner
    feeds: list[int] = []
    run = runner.run

    def counted(steps: Sequence[Any]) -> Sequence[Any]:
        feeds.extend(step.size for step in steps if isinstance(step, Feed))
        return run(steps)

    runner.run = counted  # type: ignore[method-assign]
    again.replay([past_of(a, r) for a, r in zip(audio[:-1], results, strict=True)])
    if window == "off":
        # All units in as few portions as they need, not unit by unit.
        assert set(feeds[:-1]) <= {MAX_FEED_TOKENS}
    assert again.kv_cache_length == view.kv_cache_length
    assert again._session is not None
    assert view._session is not None
    assert list(again._session.history) == list(view._session.history)
    for one in (view, again):
        one.prefill(audio[-1])
    assert_close(again._session._pending, view._session._pending, **LOGITS)
    assert again.generate().memo == view.generate().memo
    engine.close()


def test_replay_of_another_engines_units(processor: MiniCPMOProcessor) -> None:
    """Their memos say nothing to this engine, whatever they hold."""
    frame = golden_set.image_bytes("a")
    [audio] = seconds("w31", 1)
    contexts = []
    for memo in ({}, {"user": "Hello.", "word_times": [[0, "the"]], "spoken": "x"}):
        view, said = begin(processor), {"memo": memo, "audio": audio}
        view.replay(
            [
                PastUnit(is_listen=True, text="", end_of_turn=False, **said),
                PastUnit(
                    is_listen=False, text="the world", end_of_turn=True, frames=(frame,), **said
                ),
                PastUnit(is_listen=True, text="", end_of_turn=False, audio=None),
            ]
        )
        assert view._session is not None
        assert view._session.units_prefilled == 3
        assert not view._session.turn_open
        assert unit(view, audio).current_time == 4
        contexts.append(view.kv_cache_length)
        view.cleanup()
    assert contexts[0] == contexts[1]


def test_a_picture_may_come_before_the_first_second(processor: MiniCPMOProcessor) -> None:
    """The reference refuses that second, as too short for the first of a stream."""
    view, [audio] = begin(processor), seconds("w_duplex_audio", 1)
    for given, frames in ((audio[:0], [golden_set.image_bytes("b")]), (audio, [])):
        before = view.kv_cache_length
        unit(view, given, frames)
        assert view.kv_cache_length > before + 10
    view.cleanup()


def test_forced_listening_ends_the_turn(processor: MiniCPMOProcessor) -> None:
    listens = [unit["is_listen"] for unit in golden_set.facts("d_duplex_audio")["units"]]
    first_words = listens.index(False)
    view, audio = begin(processor), seconds("w_duplex_audio", first_words + 2)
    view.prepare(PROMPT, GREEDY, ref_audio=golden_set.waves()["w_ref"])
    for n in range(first_words + 1):
        assert unit(view, audio[n]).is_listen == listens[n]
    view.prefill(audio[-1])
    assert view.generate(force_listen=True).is_listen
    view.finalize()
    assert view._session is not None
    assert not view._session.turn_open
    view.cleanup()


def test_wrong_order_of_calls_is_refused(processor: MiniCPMOProcessor) -> None:
    view = processor.set_duplex_mode()
    [audio] = seconds("w31", 1)
    with pytest.raises(EngineError, match="prepare must come first"):
        view.prefill(audio)
    length = view.prepare(PROMPT, GREEDY)
    voice = golden_set.waves()["w_ref"]
    embeddings = clip_embedding_count(-(-len(voice) // HOP))
    assert view.prepare(PROMPT, GREEDY, ref_audio=voice) == length + embeddings
    with pytest.raises(EngineError, match="prefill must come before generate"):
        view.generate()
    view.prefill(audio)
    view.generate()
    view.finalize()
    view.finalize()
    with pytest.raises(EngineError, match="too little audio"):
        view.prefill(audio[:100])
    view.stop()
    view.stop()
    view.cleanup()
    view.cleanup()
    with pytest.raises(EngineError, match="prepare must come first"):
        view.prefill(audio)
    assert view.kv_cache_length == 0


def test_speaking_without_a_vocoder_is_refused(processor: MiniCPMOProcessor) -> None:
    view = processor.set_duplex_mode()
    with pytest.raises(EngineError, match="has no vocoder"):
        view.prepare(PROMPT, DuplexConfig())
    with pytest.raises(EngineError, match="1000 ms"):
        view.prepare(PROMPT, GREEDY.model_copy(update={"chunk_ms": 500}))
    view.cleanup()


def test_slots_are_limited_and_released(processor: MiniCPMOProcessor) -> None:
    views = [processor.set_duplex_mode() for _ in range(SLOTS)]
    with pytest.raises(EngineError, match="slots"):
        processor.set_duplex_mode()
    for view in views:
        view.cleanup()
    processor.set_duplex_mode().cleanup()


class Gate:
    """Blocks the engine thread within a batch until `go` is set."""

    def __init__(self, view: MiniCPMODuplexView, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        runner = view._parts.engine._runner
        run = runner.run

        def held(steps: Sequence[Any]) -> Sequence[Any]:
            self.entered.set()
            self.go_on.wait(60)
            return run(steps)

        monkeypatch.setattr(runner, "run", held)


def test_stop_abandons_the_step_in_progress(
    processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = begin(processor)
    [audio] = seconds("w31", 1)
    gate = Gate(view, monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        pending = threads.submit(view.prefill, audio)
        assert gate.entered.wait(60)
        view.stop()
        gate.go_on.set()
        with pytest.raises(EngineError, match="the session stopped"):
            pending.result()
    view.cleanup()


def test_a_stop_between_two_steps_ends_the_next_one(processor: MiniCPMOProcessor) -> None:
    view = begin(processor)
    [audio] = seconds("w31", 1)
    view.stop()
    with pytest.raises(EngineError, match="the session stopped"):
        view.prefill(audio)
    view.finalize()
    view.cleanup()


def test_an_abandoned_finalize_does_not_raise(
    processor: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = begin(processor)
    [audio] = seconds("w31", 1)
    view.prefill(audio)
    view.generate()
    gate = Gate(view, monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        pending = threads.submit(view.finalize)
        assert gate.entered.wait(60)
        view.stop()
        gate.go_on.set()
        assert pending.result() is None
    view.cleanup()


def test_random_choice_depends_on_the_session_alone() -> None:
    warm = GREEDY.model_copy(update={"temperature": 0.9})
    outcomes = []
    for crowd in (1, 3):
        engine = loaded(OPTIONS)
        views = [begin(engine, warm) for _ in range(crowd)]
        with ThreadPoolExecutor(crowd) as threads:
            done = list(threads.map(lambda v: talk(v, seconds("w_duplex_audio", 4)), views))
        outcomes.append(done[0][0])
        engine.close()
    assert outcomes[0] == outcomes[1]


def test_a_closed_engine_refuses_work() -> None:
    engine = loaded(OPTIONS.model_copy(update={"slots": 1}))
    view = begin(engine)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        view.prefill(np.zeros(16000, dtype=np.float32))
    with pytest.raises(EngineError, match="not loaded"):
        engine.set_duplex_mode()


def test_load_reports_what_is_missing(tmp_path: Any) -> None:
    with pytest.raises(EngineLoadError, match=r"no config\.json"):
        MiniCPMOProcessor(tmp_path, OPTIONS).load(ignore)
    too_long = OPTIONS.model_copy(update={"context_tokens": 50_000})
    with pytest.raises(EngineLoadError, match="positions end at 40960"):
        MiniCPMOProcessor(CHECKPOINT, too_long).load(ignore)
    greedy_for_memory = OPTIONS.model_copy(update={"slots": 10**7})
    with pytest.raises(EngineLoadError, match="set --slots to"):
        MiniCPMOProcessor(CHECKPOINT, greedy_for_memory).load(ignore)
    voiced = OPTIONS.model_copy(update={"vocoder": tmp_path})
    with pytest.raises(EngineLoadError, match="vocoder=none"):
        MiniCPMOProcessor(CHECKPOINT, voiced).load(ignore)


def test_info_and_progress() -> None:
    engine = MiniCPMOProcessor(CHECKPOINT, replace_slots(2))
    lines: list[str] = []
    engine.load(lines.append)
    assert lines == ["tokenizer", "weights 1/1 to cpu", "warm-up"]
    assert engine.info.device == "cpu"
    assert not engine.info.clones_voice
    engine.close()


def replace_slots(slots: int) -> EngineOptions:
    return OPTIONS.model_copy(update={"slots": slots})
