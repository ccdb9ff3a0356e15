"""An engine without a model, for load tests: it sleeps instead of computing and answers with a tone."""

import functools
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import (
    AnsweringView,
    ChatView,
    DuplexView,
    HalfDuplexView,
    SessionView,
    SlotPool,
    UnifiedProcessor,
)
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineInfo,
    LoadProgress,
    PastTurn,
    PastUnit,
    PrefillReport,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig, TtsConfig
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.entries import TextKind
from antiphon.shared_schemas.findings import Finding, ok
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import UnitResult

_TONE_HZ = 220.0
_TONE_LEVEL = 0.05
_OPENING = "This is simulated."
_SAID_WORDS = 3
"""Of one unit."""
_TOKENS_PER_TURN = 50
_PREFILL_STEPS = 10
_PIECE_SAMPLES = OUTPUT_RATE // 2


class SimulatedOptions(BaseModel):
    """The duration of each step in milliseconds, and the share of time that a session speaks.

    A duplex session speaks in `speak_ratio` of each `cycle_units` units. An answer has `answer_pieces`
    words of `speak_ms` each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(default=4, ge=1, le=4096)
    load_ms: float = Field(default=0.0, ge=0.0)
    prepare_ms: float = Field(default=100.0, ge=0.0)
    prefill_ms: float = Field(default=60.0, ge=0.0)
    listen_ms: float = Field(default=40.0, ge=0.0)
    speak_ms: float = Field(default=250.0, ge=0.0)
    finalize_ms: float = Field(default=30.0, ge=0.0)
    speak_ratio: float = Field(default=0.5, ge=0.0, le=1.0)
    cycle_units: int = Field(default=10, ge=1, le=1000)
    answer_pieces: int = Field(default=8, ge=0, le=1000)
    context_tokens: int = Field(default=8192, ge=1)
    unit_tokens: int = Field(default=25, ge=0)

    @property
    def listen_units(self) -> int:
        """Units of each cycle that listen. They are the first ones."""
        return self.cycle_units - round(self.cycle_units * self.speak_ratio)


@functools.lru_cache(maxsize=8)
def tone(samples: int) -> Samples:
    """`samples` of a quiet 220 Hz tone at 24 kHz."""
    time_s = np.arange(samples, dtype=np.float32) / OUTPUT_RATE
    return (_TONE_LEVEL * np.sin(2 * np.pi * _TONE_HZ * time_s)).astype(np.float32)


class _SimulatedView(SessionView):
    """A session that sleeps instead of computing. `cleanup` frees its slot."""

    def __init__(self, options: SimulatedOptions, slot: ExitStack) -> None:
        self._options = options
        self._slot = slot
        self._stopped = threading.Event()
        self._ended = threading.Event()
        """A view waits for it instead of computing. While it is set, no wait takes time."""

    def stop(self) -> None:
        self._stopped.set()
        self._ended.set()

    def cleanup(self) -> None:
        self.stop()
        self._slot.close()


class SimulatedDuplexView(_SimulatedView, DuplexView):
    """Listens and speaks in a fixed cycle. Every result has `simulated` set.

    A unit that is forced to listen interrupts the turn; the cycle then starts again. The greeting
    comes before the first cycle.
    """

    def __init__(self, options: SimulatedOptions, slot: ExitStack) -> None:
        super().__init__(options, slot)
        self._listen_units = options.listen_units
        self._config = DuplexConfig()
        self._samples = 0
        self._total_samples = 0
        self._units = 0
        self._phase = 0
        self._to_say: list[str] = []
        """The words of the greeting and of the client's texts that are not spoken yet."""
        self._saying = False

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002
        tts_ref_audio: Samples | None = None,  # noqa: ARG002
    ) -> int:
        """Returns the number of words in the prompt."""
        self._ended.wait(self._options.prepare_ms / 1000)
        self._config = config
        self._units = self._phase = self._total_samples = 0
        self._to_say, self._saying = config.greeting.split(), False
        return len(system_prompt.split())

    def prefill(
        self,
        audio: Samples,
        frames: Sequence[bytes] = (),  # noqa: ARG002
        max_slice_nums: int = 1,  # noqa: ARG002
    ) -> PrefillReport:
        self._samples = len(audio)
        self._total_samples += len(audio)
        self._ended.wait(self._options.prefill_ms / 1000)
        return PrefillReport(cost_ms=self._options.prefill_ms)

    def generate(self, force_listen: bool = False) -> UnitResult:
        silenced = force_listen or self._stopped.is_set()
        if silenced:
            self._to_say, self._saying = [], False
        elif self._to_say and self._phase <= self._listen_units:
            return self._say()
        must_listen = silenced or self._units < self._config.force_listen_count
        cycle, listen_units = self._options.cycle_units, self._listen_units
        speaks = not must_listen and listen_units <= self._phase < cycle
        if speaks:
            self._phase = (self._phase + 1) % cycle
        elif self._phase > listen_units:
            self._phase = 0
        else:
            self._phase = min(self._phase + 1, listen_units) % cycle
        self._units += 1
        if not speaks:
            return self._result(self._options.listen_ms)
        words = ["unit", str(self._units)][: self._config.max_new_speak_tokens_per_chunk]
        continues = self._phase != listen_units + 1
        return self._speech(words, continues=continues, last=self._phase == 0)

    def finalize(self) -> None:
        self._ended.wait(self._options.finalize_ms / 1000)

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Continue at the position in the cycle that the last unit's memo contains."""
        self._units = len(units)
        self._total_samples = sum(len(u.audio) for u in units if u.audio is not None)
        if units:
            self._phase = int(units[-1].memo.get("phase", 0))
            self._to_say = list(units[-1].memo.get("to_say", ()))
            self._saying = not units[-1].is_listen and not units[-1].end_of_turn

    def add_history(self, history: Sequence[tuple[TextKind, str]]) -> None:
        """Has no effect: the answers are always the same."""

    def add_text(self, kind: TextKind, text: str) -> None:
        """Says a commentary after the current turn. Other texts have no effect."""
        if kind is TextKind.COMMENTARY:
            self._to_say += text.split()

    @property
    def kv_cache_length(self) -> int:
        return min(self._options.context_tokens, self._units * self._options.unit_tokens)

    def _say(self) -> UnitResult:
        self._units += 1
        count = min(_SAID_WORDS, self._config.max_new_speak_tokens_per_chunk)
        words, self._to_say = self._to_say[:count], self._to_say[count:]
        continues, self._saying = self._saying, bool(self._to_say)
        return self._speech(words, continues=continues, last=not self._to_say)

    def _result(self, cost_ms: float) -> UnitResult:
        self._ended.wait(cost_ms / 1000)
        return UnitResult(
            is_listen=True,
            current_time=self._total_samples * 1000 // INPUT_RATE,
            cost_all_ms=self._options.prefill_ms + cost_ms,
            kv_cache_length=self.kv_cache_length,
            simulated=True,
            memo={"phase": self._phase, "to_say": self._to_say},
        )

    def _speech(self, words: list[str], *, continues: bool, last: bool) -> UnitResult:
        count = self._samples * OUTPUT_RATE // INPUT_RATE
        return replace(
            self._result(self._options.speak_ms),
            is_listen=False,
            text=" " * continues + " ".join(words),
            audio=tone(count) if self._config.generate_audio else SILENCE,
            end_of_turn=last,
            cost_llm_ms=self._options.speak_ms,
            n_tokens=len(words),
        )


class _SimulatedAnsweringView(_SimulatedView, AnsweringView):
    """Every answer is the same."""

    def __init__(self, options: SimulatedOptions, slot: ExitStack) -> None:
        super().__init__(options, slot)
        self._config: HalfDuplexConfig | ChatOptions = HalfDuplexConfig()

    def generate(self) -> Iterator[Delta]:
        return self.resume("")

    def resume(self, said: str) -> Iterator[Delta]:
        words = [_OPENING, *(f" {n}" for n in range(2, self._options.answer_pieces + 1))]
        limit = min(self._config.generation.max_new_tokens, self._options.answer_pieces)
        return self._say(words[:limit], said)

    def _say(self, pieces: Iterable[str], said: str) -> Iterator[Delta]:
        audio = tone(_PIECE_SAMPLES) if self._config.tts.enabled else SILENCE
        length = 0
        for word in pieces:
            length += len(word)
            if length <= len(said):
                continue
            self._ended.wait(self._options.speak_ms / 1000)
            if self._ended.is_set():
                return
            yield Delta(text=word, audio=audio, n_tokens=1)


class SimulatedHalfDuplexView(_SimulatedAnsweringView, HalfDuplexView):
    """Its context grows by a fixed length with each turn."""

    def __init__(self, options: SimulatedOptions, slot: ExitStack) -> None:
        super().__init__(options, slot)
        self._turns = 0
        self._greeting: list[str] = []

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002
    ) -> int:
        """Returns the number of words in the prompt."""
        self._ended.wait(self._options.prepare_ms / 1000)
        self._config, self._turns = config, 0
        self._greeting = config.greeting.split()
        return len(system.text.split())

    def greet(self, said: str) -> Iterator[Delta]:
        self._turns += 1
        return self._say([" " * bool(n) + word for n, word in enumerate(self._greeting)], said)

    def prefill(self, utterance: Samples) -> None:  # noqa: ARG002
        if not self._stopped.is_set():
            self._ended.clear()  # a break that arrived after the last answer has no effect
        self._turns += 1
        self._ended.wait(self._options.prefill_ms / 1000)

    def memo(self) -> dict[str, Any]:
        return {"simulated": True}

    def rollback(self) -> None:
        self._turns = max(0, self._turns - 1)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        self._turns = len(turns)

    def set_break(self) -> None:
        self._ended.set()

    @property
    def kv_cache_length(self) -> int:
        return min(self._options.context_tokens, self._turns * _TOKENS_PER_TURN)


class SimulatedChatView(_SimulatedAnsweringView, ChatView):
    """Reports its progress in steps of a tenth."""

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        for step in range(_PREFILL_STEPS):
            on_progress(step / _PREFILL_STEPS)
            self._ended.wait(self._options.prefill_ms / _PREFILL_STEPS / 1000)
        self._config = options
        return sum(len(message.text.split()) for message in messages)

    def read_aloud(self, text: str, tts: TtsConfig, said: str) -> Iterator[Delta]:
        self._config = ChatOptions(tts=tts)
        return self._say(re.findall(r"\s*\S+\s*", text), said)


class SimulatedProcessor(UnifiedProcessor):
    """An engine without a model. Its name and every result contain `simulated`."""

    def __init__(self, options: SimulatedOptions) -> None:
        self._options = options
        self._slots = SlotPool(options.slots)

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="simulated",
            model="simulated",
            kinds=frozenset(SessionKind),
            device="none",
            context_tokens=self._options.context_tokens,
            sees_frames=False,
            clones_voice=False,
            greets=True,
            takes_texts=True,
            reads_aloud=True,
            simulated=True,
        )

    def load(self, report: LoadProgress) -> None:
        report("timing model")
        threading.Event().wait(self._options.load_ms / 1000.0)

    def set_duplex_mode(self) -> SimulatedDuplexView:
        return SimulatedDuplexView(self._options, self._take_slot())

    def set_half_duplex_mode(self) -> SimulatedHalfDuplexView:
        return SimulatedHalfDuplexView(self._options, self._take_slot())

    def set_chat_mode(self) -> SimulatedChatView:
        return SimulatedChatView(self._options, self._take_slot())

    def _take_slot(self) -> ExitStack:
        slot = ExitStack()
        slot.callback(self._slots.release, self._slots.acquire())
        return slot


class SimulatedPlugin(EnginePlugin[SimulatedOptions]):
    """It has no model, so it takes no `--model-path`."""

    options = SimulatedOptions

    def build(self, options: SimulatedOptions, model_path: Path | None) -> UnifiedProcessor:  # noqa: ARG002
        return SimulatedProcessor(options)

    def examine(self, options: SimulatedOptions, model_path: Path | None) -> Iterable[Finding]:  # noqa: ARG002
        return [ok("engine", "simulated: needs nothing; for load tests only")]


PLUGIN = SimulatedPlugin()
