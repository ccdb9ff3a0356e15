"""The engine `simulated` keeps the contract of engines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.simulated import SimulatedDuplexView, SimulatedOptions
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.entries import UnreadableEntry
from antiphon.shared_schemas.unit_result import UnitResult

FAST = dict.fromkeys(["prepare_ms", "prefill_ms", "listen_ms", "speak_ms", "finalize_ms"], 0.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[UnifiedProcessor]:
    slots, options = EngineConformance.slots, {**FAST, "cycle_units": 4}
    engine = build_processor("simulated", slots=slots, options=options)
    engine.load(lambda _: None)
    yield engine
    engine.close()


class TestSimulated(EngineConformance):
    pass


class ForgetfulView(SimulatedDuplexView):
    """Its recovery does nothing."""

    def replay(self, units: Sequence[PastUnit]) -> None:
        pass


class TalkativeView(SimulatedDuplexView):
    """Speaks even while it is forced to listen."""

    def generate(self, force_listen: bool = False) -> UnitResult:
        return UnitResult(is_listen=False, text="no")


class MumblingView(SimulatedDuplexView):
    """Says something while it listens."""

    def generate(self, force_listen: bool = False) -> UnitResult:
        return UnitResult(is_listen=True, text="hm")


class InexactView(SimulatedDuplexView):
    """Counts parts of tokens."""

    def generate(self, force_listen: bool = False) -> UnitResult:
        return replace(super().generate(force_listen), kv_cache_length=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("view", "test"),
    [
        (ForgetfulView, TestSimulated.test_duplex_recovery),
        (TalkativeView, TestSimulated.test_duplex_forced_listening),
        (MumblingView, TestSimulated.test_duplex_units),
        (InexactView, TestSimulated.test_duplex_units),
    ],
)
def test_a_broken_engine_fails(
    engine: UnifiedProcessor,
    monkeypatch: pytest.MonkeyPatch,
    view: type[SimulatedDuplexView],
    test: Callable[[TestSimulated, UnifiedProcessor], None],
) -> None:
    monkeypatch.setattr(
        engine, "set_duplex_mode", lambda: view(SimulatedOptions(**FAST), ExitStack())
    )
    with pytest.raises((AssertionError, UnreadableEntry)):
        test(TestSimulated(), engine)
