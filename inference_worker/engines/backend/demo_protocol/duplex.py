"""One full-duplex session on a backend server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.backend.demo_protocol.connection import (
    BackendConnection,
    BackendEvent,
)
from antiphon.inference_worker.engines.backend.demo_protocol.messages import (
    full_duplex_init,
    unit_input,
)
from antiphon.inference_worker.engines.backend.demo_protocol.server import DemoServer
from antiphon.inference_worker.engines.backend.demo_protocol.view import DemoView
from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.backend.view import UnitInArrival, prompt_with_past
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import (
    EngineLost,
    InputRefused,
    PastUnit,
    PrefillReport,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

_MOST_OPEN = 2
"""Inputs that a server may have before it has answered them. More would only add delay."""
_SOUND_SHARE = 0.8
"""How long, as a share of a unit, a unit whose text is complete waits for sound."""
_SETTLE_S = 0.05
"""The demo's server marks no end of a unit that speaks, but sends its messages together."""
_MOST_SAMPLES = 2 * OUTPUT_RATE


@dataclass(slots=True)
class _Unit(UnitInArrival):
    listened: bool = False
    """The newest event was `listen`, apart from sound."""
    metrics: dict[str, Any] = field(default_factory=dict)


class BackendDuplexView(DemoView, DuplexView):
    """Its server decides when to speak. Sound, and text of a slow server, may arrive during a later unit
    than that of their input, and are then in that unit's result.

    A server cannot rebuild a context. `replay` starts a session whose prompt contains what was said, and
    sends the newest sound again.
    """

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._config = DuplexConfig()
        self._prompt = ""
        self._voices: tuple[Samples | None, Samples | None] = (None, None)
        self._input: tuple[Samples, Sequence[bytes], int] = (SILENCE, (), 1)
        self._reset()

    def _reset(self) -> None:
        self._unit = _Unit()
        self._answered = 0
        """The newest input that the server has completed."""
        self._speaks = False
        """A turn of the model has begun and not ended."""
        self._muted = False
        """Sound of an interrupted turn still arrives."""
        self._held: Samples = SILENCE

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        self._prompt, self._config = system_prompt, config
        self._voices = (ref_audio, tts_ref_audio)
        self._begin(system_prompt)
        return self.kv_cache_length

    def _begin(self, prompt: str) -> None:
        def payload(server: DemoServer) -> dict[str, Any]:
            stated = server.dialect.system_prompt(prompt, self._config)
            return full_duplex_init(stated, self._config, self._voices)

        self._open_session(payload)
        self._reset()

    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        """Keep the input for `generate`: the protocol has one message for both steps."""
        if not len(audio):
            raise InputRefused("a unit without sound cannot be sent to a backend server")
        self._input = (audio, frames, max_slice_nums)
        return PrefillReport(cost_ms=0.0)

    def generate(self, force_listen: bool = False) -> UnitResult:
        connection = self._prepared()
        self._wait_for_answers(connection)
        audio, frames, slices = self._input
        sent = self._dialect.frames(frames)
        connection.append(unit_input(audio, sent, slices, force_listen=force_listen))
        self._collect(connection, forced=force_listen)
        unit, self._unit = self._unit, _Unit()
        return self._silent_result(unit) if force_listen else self._result(unit)

    def replay(self, units: Sequence[PastUnit]) -> None:
        """What was said before the newest sound remains as text."""
        if prompt := prompt_with_past(self._prompt, units):
            self._begin(prompt)
        for unit in units:
            if unit.audio is not None and len(unit.audio):
                self.prefill(unit.audio, unit.frames, self._config.max_slice_nums)
                self.generate(force_listen=True)

    def _wait_for_answers(self, connection: BackendConnection) -> None:
        """Let a server that is slower than real time catch up. Raises EngineLost if it is silent."""
        limit_s = self._options.stall_timeout_s
        while connection.inputs - self._answered >= _MOST_OPEN and not self._stopped.is_set():
            if event := connection.next(limit_s):
                self._take(event, connection.inputs)
            elif not self._stopped.is_set():
                raise EngineLost(f"the backend server has sent nothing for {limit_s:g} s")

    def _collect(self, connection: BackendConnection, *, forced: bool) -> None:
        begun, current = time.monotonic(), connection.inputs
        length_s = len(self._input[0]) / INPUT_RATE
        while not self._stopped.is_set():
            if self._answered >= current:
                by = begun + _SOUND_SHARE * length_s if self._awaits_sound and not forced else 0.0
            elif self._unit.settles_at is not None and not forced:
                by = self._unit.settles_at
            else:
                by = begun + length_s
            event = connection.next(by - time.monotonic())
            if event is None:
                return
            self._take(event, current)

    @property
    def _awaits_sound(self) -> bool:
        unit = self._unit
        said = self._speaks or bool(unit.texts)
        return self._dialect.late_sound and self._config.generate_audio and said and not unit.sound

    def _take(self, event: BackendEvent, current: int) -> None:
        self._note(event)
        unit = self._unit
        unit.metrics.update(event.metrics)
        if event.kind in ("listen", "done"):
            self._answered = max(self._answered, event.input_number or current)
            unit.listened = unit.listened or event.kind == "listen"
        elif event.kind == "text":
            unit.texts.append(event.text)
            unit.listened = self._muted = False
        elif event.kind == "audio" and self._config.generate_audio and not self._muted:
            unit.sound.append(event.audio)
        if (
            event.kind in ("text", "audio")
            and not self._dialect.late_sound
            and event.input_number in (None, current)
        ):
            unit.settles_at = time.monotonic() + _SETTLE_S

    def _silent_result(self, unit: _Unit) -> UnitResult:
        self._speaks, self._held, self._muted = False, SILENCE, self._dialect.late_sound
        return UnitResult(is_listen=True, **self._costs(unit))

    def _result(self, unit: _Unit) -> UnitResult:
        text = "".join(unit.texts)
        sound = np.concatenate([self._held, *unit.sound])
        sent, self._held = sound[:_MOST_SAMPLES], sound[_MOST_SAMPLES:]
        self._speaks = self._speaks or bool(text) or len(sound) > 0
        if not self._speaks:
            return UnitResult(is_listen=True, **self._costs(unit))
        may_continue = self._dialect.late_sound and len(sound) > 0
        ends = unit.listened and not len(self._held) and not may_continue
        self._speaks = not ends
        return UnitResult(
            is_listen=False, text=text, audio=sent, end_of_turn=ends, **self._costs(unit)
        )

    def _costs(self, unit: _Unit) -> dict[str, Any]:
        names = ("cost_llm_ms", "cost_tts_prep_ms", "cost_tts_ms", "cost_token2wav_ms")
        costs = {name: float(unit.metrics.get(name, 0.0)) for name in names}
        counts = {name: int(unit.metrics.get(name, 0)) for name in ("n_tokens", "n_tts_tokens")}
        return {**costs, **counts, "kv_cache_length": self.kv_cache_length}
