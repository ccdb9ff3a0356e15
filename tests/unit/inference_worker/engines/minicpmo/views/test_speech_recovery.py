"""How recovery rebuilds a turn that was being spoken."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import UnitMemo
from antiphon.inference_worker.engines.minicpmo.conversations.replay import (
    speech_context_start,
    unfinished_turn_codes,
)
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import DecodeSpeech
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.minicpmo.views.duplex import MiniCPMODuplexView
from antiphon.inference_worker.engines.types import EngineError, PastUnit
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import DuplexConfig
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT, CLOSE
from support.minicpmo.tone_vocoder import Tone

pytestmark = pytest.mark.usefixtures("releases_slots")

OPTIONS = EngineOptions(slots=2, context_tokens=1024, speech_tokens=256, device="cpu")
SPEAKING = DuplexConfig(temperature=0.0, force_listen_count=0)
WAVES = golden_set.waves()


class CodeRecorder(Tone):
    """Records the codes of each voice."""

    def synthesize(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        voice.waiting += codes
        return super().synthesize(voice, codes, last=last)


@pytest.fixture(scope="module")
def engine() -> Iterator[MiniCPMOProcessor]:
    processor = MiniCPMOProcessor(CHECKPOINT, OPTIONS)
    processor.load(lambda _line: None)
    assert processor._parts is not None
    processor._parts = replace(processor._parts, vocoder=CodeRecorder())
    yield processor
    processor.close()


def begin(engine: MiniCPMOProcessor, config: DuplexConfig = SPEAKING) -> MiniCPMODuplexView:
    view = engine.set_duplex_mode()
    assert isinstance(view, MiniCPMODuplexView)
    view.prepare(golden_set.system_prompt("d_duplex_audio"), config, ref_audio=WAVES["w_ref"])
    return view


def unit(view: MiniCPMODuplexView, audio: Samples, **how: Any) -> PastUnit:
    view.prefill(audio, how.get("frames", ()), how.get("slices", 1))
    result = view.generate(force_listen=how.get("force_listen", False))
    view.finalize()
    return PastUnit(
        audio=audio,
        frames=tuple(how.get("frames", ())),
        is_listen=result.is_listen,
        text=result.text,
        end_of_turn=result.end_of_turn,
        memo=result.memo,
    )


def second(name: str, n: int) -> Samples:
    return WAVES[name][n * 16000 : (n + 1) * 16000]


def test_a_unit_whose_speech_fails_costs_no_other(
    engine: MiniCPMOProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker closes no unit that failed."""
    view, listens = begin(engine), 0
    runner = view._parts.engine._runner
    run = runner.run

    def fails(steps: Any) -> Any:
        if isinstance(steps[0], DecodeSpeech):
            raise RuntimeError("no memory left")  # noqa: TRY004
        return run(steps)

    while unit(view, second("w_duplex_audio", listens)).is_listen:
        listens += 1
    view.cleanup()
    view = begin(engine)
    for n in range(listens):
        unit(view, second("w_duplex_audio", n))
    with monkeypatch.context() as failing:
        failing.setattr(runner, "run", fails)
        view.prefill(second("w_duplex_audio", listens))
        with pytest.raises(EngineError, match="no memory left"):
            view.generate()
    length = view.kv_cache_length
    unit(view, second("w_duplex_audio", listens + 1))
    assert view.kv_cache_length > length
    view.cleanup()


def speech_cache(view: MiniCPMODuplexView) -> torch.Tensor:
    """Keys and values of the speech model, (2, layers, length, heads, dim)."""
    assert view._session is not None
    cache = view._parts.engine._runner.speech_cache
    slot, length = view._lease.slot, view._session.speech.position
    return torch.stack(
        [torch.stack([t[slot, :length] for t in kind]) for kind in (cache.keys, cache.values)]
    )


def test_the_speech_of_an_unfinished_turn(engine: MiniCPMOProcessor) -> None:
    """Wherever the first worker is lost: the next one has its speech context and its audio."""
    first = begin(engine)
    past = [unit(first, second("w_duplex_audio", 0))]
    for lost_after in range(1, 8):
        again = begin(engine)
        again.replay(past)
        assert first._session is not None
        assert again._session is not None
        assert again._session.speech.position == first._session.speech.position
        assert_close(speech_cache(again), speech_cache(first), **CLOSE)
        if lost_after == 3:  # later, a turn has ended, whose codes the recorder of `first` keeps
            assert first._voice is not None
            assert again._voice is not None
            assert again._voice.waiting == first._voice.waiting != []
        ahead = second("w_duplex_audio", lost_after)
        following = unit(again, ahead)
        past.append(unit(first, ahead))
        assert replace(following, audio=None) == replace(past[-1], audio=None)
        again.cleanup()
    first.cleanup()
    # It would prove nothing if every unit ended its turn.
    lengths = [UnitMemo(**one.memo).speech_length for one in past]
    assert max(lengths) > 60
    assert 0 in lengths[2:]


GREETING = "Hello and welcome. 你好，很高兴见到你。<|im_end|>"
GREETED = ["Hello and welc", "ome. 你好，", "很高兴见到", "你。"]


def test_a_greeting_is_spoken_at_the_speed_of_speech(engine: MiniCPMOProcessor) -> None:
    config = SPEAKING.model_copy(update={"greeting": GREETING, "force_listen_count": 3})
    first = begin(engine, config)
    past = [unit(first, second("w_duplex_audio", n)) for n in range(len(GREETED))]
    assert [one.text for one in past] == GREETED
    assert [one.end_of_turn for one in past] == [False, False, False, True]
    assert all(one.memo["codes"] and one.memo["chosen"] == one.memo["fed"] for one in past)
    assert "greeting_left" in past[0].memo
    for lost_after in range(1, len(past)):
        again = begin(engine, config)
        again.replay(past[:lost_after])
        following = unit(again, second("w_duplex_audio", lost_after))
        assert replace(following, audio=None) == replace(past[lost_after], audio=None)
        again.cleanup()
    first.cleanup()


MONOLOGUE = "The way is the way that the other one said. " * 6
"""A turn of many units, whatever the model would say."""


def test_a_monologue_that_fills_the_speech_context_keeps_its_last_units(
    engine: MiniCPMOProcessor,
) -> None:
    """Also on another worker."""
    config = SPEAKING.model_copy(update={"greeting": MONOLOGUE})
    first = begin(engine, config)
    past = [unit(first, second("w_window", n % 10)) for n in range(13)]
    memos = [UnitMemo(**one.memo) for one in past]
    assert all(memo.turn_open for memo in memos)
    assert [len(memo.codes) for memo in memos[1:]] == [25] * 12
    again_at = next(n for n, memo in enumerate(memos) if memo.fed_again)
    assert memos[again_at].fed_again == 2
    assert memos[again_at].speech_start == sum(
        (memo.spoken or 0) + 1 + len(memo.codes) for memo in memos[again_at - 2 : again_at]
    )
    for lost_after in (again_at, again_at + 1, again_at + 2):
        again = begin(engine, config)
        again.replay(past[:lost_after])
        assert again._session is not None
        assert again._session.speech.position == memos[lost_after - 1].speech_length
        following = unit(again, second("w_window", lost_after % 10))
        assert replace(following, audio=None) == replace(past[lost_after], audio=None)
        again.cleanup()
    first.cleanup()


def test_without_room_for_a_word_there_is_no_greeting(engine: MiniCPMOProcessor) -> None:
    config = SPEAKING.model_copy(
        update={"greeting": GREETING, "max_new_speak_tokens_per_chunk": 2, "force_listen_count": 1}
    )
    view = begin(engine, config)
    assert unit(view, second("w_duplex_audio", 0)).is_listen
    view.cleanup()


def test_images_are_sliced_as_before(engine: MiniCPMOProcessor) -> None:
    first = begin(engine)
    frame = [golden_set.image_bytes("b")]
    past = [unit(first, second("w_omni", n), frames=frame, slices=4) for n in range(2)]
    past.append(unit(first, second("w_omni", 2), force_listen=True))
    again = begin(engine)
    again.replay(past)
    assert again.kv_cache_length == first.kv_cache_length
    assert_close(speech_cache(again), speech_cache(first), **CLOSE)
    for view in (first, again):
        view.cleanup()


def spoken(
    start: int, codes: int, words: int = 2, *, ended: bool = False, fed_again: int = 0
) -> UnitMemo:
    length = 0 if ended else start + words + 1 + codes
    return UnitMemo(
        fed=[1] * words,
        chosen=[1] * words,
        spoken=words,
        codes=list(range(codes)),
        speech_length=length,
        fed_again=fed_again,
    )


LISTENED = UnitMemo(terminator=1, chosen=[1])
FORCED = UnitMemo(terminator=1, fed=[7], speech_length=40)


@pytest.mark.parametrize(
    ("memos", "first", "sound"),
    [
        ([], 0, 0),
        ([LISTENED], 1, 0),
        ([spoken(0, 5)], 0, 1),
        ([spoken(0, 5, ended=True)], 1, 0),
        ([spoken(0, 5, ended=True), spoken(0, 5), spoken(8, 5)], 1, 2),
        ([spoken(0, 37), FORCED], 0, 0),  # the voice starts again, the speech context continues
        ([spoken(0, 37), FORCED, spoken(40, 5)], 0, 1),
        (
            [spoken(90, 5), spoken(0, 5)],
            1,
            2,
        ),  # the context was full and started again, the voice continues
        # The same, with the last two units at its start.
        ([spoken(82, 5), spoken(90, 5), spoken(98, 5), spoken(16, 5, fed_again=2)], 1, 4),
        ([spoken(90, 5), FORCED, spoken(98, 5), spoken(16, 5, fed_again=2)], 0, 2),
        ([spoken(90, 5), spoken(8, 5, fed_again=2)], 2, 2),
        ([spoken(90, 5)], 1, 1),  # the memos of an older worker do not contain its start
        ([spoken(0, 300)], 1, 1),  # the next worker has a shorter speech context
    ],
)
def test_first_unit_in_the_speech_context(memos: list[UnitMemo], first: int, sound: int) -> None:
    assert speech_context_start(memos, 256) == first
    assert len(unfinished_turn_codes(memos)) == sound


def test_memos_without_speech(engine: MiniCPMOProcessor) -> None:
    view = begin(engine)
    memo = {"fed": [1, 2], "terminator": None, "words": [1], "chosen": [1, 2], "turn_open": True}
    listened = PastUnit(
        audio=np.zeros(16000, np.float32), is_listen=False, text="", end_of_turn=False, memo=memo
    )
    view.replay([listened])
    assert view._session is not None
    assert view._session.speech.position == 0
    view.cleanup()
