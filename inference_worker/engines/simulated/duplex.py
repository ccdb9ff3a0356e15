"""Replays a timing model for load tests: it sleeps where an engine would compute, and says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from antiphon.inference_worker.engines.common.slots import SlotPool
from antiphon.inference_worker.engines.processor import DuplexView, UnifiedProcessor
from antiphon.inference_worker.engines.simulated.options import SimulatedOptions, tone
from antiphon.inference_worker.engines.simulated.turns import (
    SimulatedChatView,
    SimulatedHalfDuplexView,
)
from antiphon.inference_worker.engines.types import (
    EngineInfo,
    LoadProgress,
    PastUnit,
    PrefillReport,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import UnitResult

_TOKENS_PER_UNIT = 25


class SimulatedDuplexView(DuplexView):
    """A session that speaks by the clock. Every result has `simulated` set.

    A unit that has to listen interrupts the turn; the cycle then starts again.
    """

    def __init__(self, options: SimulatedOptions, release: Callable[[], None]) -> None:
        self._options = options
        self._release: Callable[[], None] | None = release
        self._stopped = threading.Event()
        self._config = DuplexConfig()
        self._samples = 0
        self._total_samples = 0
        self._units = 0
        self._phase = 0
        self._break = False

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002
        tts_ref_audio: Samples | None = None,  # noqa: ARG002
    ) -> int:
        """Take `prepare_ms`; returns the number of words in the prompt."""
        self._sleep(self._options.prepare_ms)
        self._config = config
        self._units = self._phase = self._total_samples = 0
        return len(system_prompt.split())

    def prefill(
        self,
        audio: Samples,
        frames: Sequence[bytes] = (),  # noqa: ARG002
        max_slice_nums: int = 1,  # noqa: ARG002
    ) -> PrefillReport:
        """Take `prefill_ms`."""
        self._samples = len(audio)
        self._total_samples += len(audio)
        self._sleep(self._options.prefill_ms)
        return PrefillReport(cost_ms=self._options.prefill_ms)

    def generate(self, force_listen: bool = False) -> UnitResult:
        """Take `listen_ms` or `speak_ms`, as the cycle has it."""
        silenced = force_listen or self._break or self._stopped.is_set()
        speaks = self._step(silenced or self._units < self._config.force_listen_count)
        self._units += 1
        cost_ms = self._options.speak_ms if speaks else self._options.listen_ms
        self._sleep(cost_ms)
        return self._speech(cost_ms) if speaks else self._listening(cost_ms)

    def finalize(self) -> None:
        """Take `finalize_ms`."""
        self._sleep(self._options.finalize_ms)

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Go on at the place in the cycle that the last unit's memo names."""
        self._units = len(units)
        self._total_samples = sum(len(u.audio) for u in units if u.audio is not None)
        if units:
            self._phase = int(units[-1].memo.get("phase", 0))

    def set_break(self) -> None:
        """Listen until `clear_break`."""
        self._break = True

    def clear_break(self) -> None:
        """Undo `set_break`."""
        self._break = False

    def stop(self) -> None:
        """End a sleep in progress, and every later one."""
        self._stopped.set()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        release, self._release = self._release, None
        if release is not None:
            release()

    @property
    def kv_cache_length(self) -> int:
        """A made-up number that grows by 25 with each unit."""
        return min(self._options.context_tokens, self._units * _TOKENS_PER_UNIT)

    def _step(self, must_listen: bool) -> bool:
        """Advance in the cycle; True if this unit speaks."""
        cycle, listen_units = self._options.cycle_units, self._options.listen_units
        speaks = not must_listen and listen_units <= self._phase < cycle
        if speaks:
            self._phase = (self._phase + 1) % cycle
        elif self._phase > listen_units:
            self._phase = 0
        else:
            self._phase = min(self._phase + 1, listen_units) % cycle
        return speaks

    def _listening(self, cost_ms: float) -> UnitResult:
        return UnitResult(
            is_listen=True,
            current_time=self._current_time,
            cost_all_ms=self._options.prefill_ms + cost_ms,
            kv_cache_length=self.kv_cache_length,
            simulated=True,
            memo={"phase": self._phase},
        )

    def _speech(self, cost_ms: float) -> UnitResult:
        words = ["unit", str(self._units)][: self._config.max_new_speak_tokens_per_chunk]
        continues = self._phase != self._options.listen_units + 1
        count = self._samples * OUTPUT_RATE // INPUT_RATE
        return UnitResult(
            is_listen=False,
            text=" " * continues + " ".join(words),
            audio=tone(count) if self._config.generate_audio else SILENCE,
            end_of_turn=self._phase == 0,
            current_time=self._current_time,
            cost_llm_ms=cost_ms,
            cost_all_ms=self._options.prefill_ms + cost_ms,
            n_tokens=len(words),
            kv_cache_length=self.kv_cache_length,
            simulated=True,
            memo={"phase": self._phase},
        )

    @property
    def _current_time(self) -> int:
        return self._total_samples * 1000 // INPUT_RATE

    def _sleep(self, duration_ms: float) -> None:
        self._stopped.wait(duration_ms / 1000.0)


class SimulatedProcessor(UnifiedProcessor):
    """An engine without a model; its name and every result say so."""

    def __init__(self, options: SimulatedOptions) -> None:
        self._options = options
        self._slots = SlotPool(options.slots)

    @property
    def info(self) -> EngineInfo:
        """A made-up engine for all kinds of session."""
        return EngineInfo(
            name="simulated",
            model="simulated",
            kinds=frozenset(SessionKind),
            device="none",
            context_tokens=self._options.context_tokens,
            sees_frames=False,
            clones_voice=False,
            simulated=True,
        )

    def load(self, report: LoadProgress) -> None:
        """Take `load_ms`."""
        report("timing model")
        threading.Event().wait(self._options.load_ms / 1000.0)

    def set_duplex_mode(self) -> SimulatedDuplexView:
        """A new full-duplex session. Raises EngineError when all slots are taken."""
        return SimulatedDuplexView(self._options, self._take_slot())

    def set_half_duplex_mode(self) -> SimulatedHalfDuplexView:
        """A new half-duplex session. Raises EngineError when all slots are taken."""
        return SimulatedHalfDuplexView(self._options, self._take_slot())

    def set_chat_mode(self) -> SimulatedChatView:
        """A new chat request. Raises EngineError when all slots are taken."""
        return SimulatedChatView(self._options, self._take_slot())

    def close(self) -> None:
        """Nothing to release."""

    def _take_slot(self) -> Callable[[], None]:
        slot = self._slots.acquire()
        return lambda: self._slots.release(slot)
