"""One full-duplex session on vLLM-Omni."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.inference_worker.engines.backend.options import BackendOptions
from antiphon.inference_worker.engines.backend.server import ServerUnavailable
from antiphon.inference_worker.engines.backend.server_pool import ServerPool
from antiphon.inference_worker.engines.backend.view import (
    OneSessionView,
    UnitInArrival,
    prompt_with_past,
)
from antiphon.inference_worker.engines.backend.vllm_omni.events import EventKind, OmniEvent
from antiphon.inference_worker.engines.backend.vllm_omni.messages import (
    append,
    check_settings,
    session_update,
)
from antiphon.inference_worker.engines.backend.vllm_omni.server import VllmOmniServer
from antiphon.inference_worker.engines.backend.vllm_omni.session import (
    NotOffered,
    OmniSession,
    SessionLost,
)
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import (
    EngineBusy,
    EngineLost,
    InputRefused,
    PastUnit,
    PrefillReport,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

_UNIT_S = 1.0
"""The server runs the model on each second of input, however it is cut."""
_MOST_OWED_S = 3.0
"""Input that the server may have before it has answered. More would only add delay."""
_SETTLE_S = 0.05
"""The server sends the messages of a unit that speaks together."""
_MOST_SAMPLES = 2 * OUTPUT_RATE
_TRIAL_UNITS = 30
"""A recovered session that loses its server sooner may be the cause, and ends."""


@dataclass(slots=True)
class _Unit(UnitInArrival):
    listens: bool = False
    ended: bool = False
    """The answer is complete. Events after its end belong to the next unit."""


class VllmOmniDuplexView(OneSessionView[VllmOmniServer, OmniSession], DuplexView):
    """The server decides when to speak. What it says may arrive during a later unit than that of its
    input, and is then in that unit's result.

    A session whose server is lost returns to the queue. `replay` starts a new one whose prompt contains
    what was said, and sends the newest sound again.
    """

    def __init__(self, options: BackendOptions, servers: ServerPool) -> None:
        super().__init__(options, servers)
        self._config = DuplexConfig()
        self._prompt = ""
        self._voice: Samples | None = None
        self._input: tuple[Samples, Sequence[bytes]] = (SILENCE, ())
        self._trial_left = 0
        self._reset()

    def _reset(self) -> None:
        self._unit = _Unit()
        self._owed_s = 0.0
        """Input that the server has not answered."""
        self._silent_s = 0.0
        """Input since its newest event. A pause of the client is no silence of the server."""
        self._response = ""
        """The answer that it gives now."""
        self._last_response = ""
        self._dropped = ""
        """An answer that was interrupted: what still arrives of it is not passed on."""
        self._held: Samples = SILENCE

    @property
    def kv_cache_length(self) -> int:
        """The server does not tell."""
        return 0

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        check_settings(config)
        self._prompt, self._config = system_prompt, config
        self._voice = tts_ref_audio if ref_audio is None else ref_audio
        self._begin(system_prompt)
        return self.kv_cache_length

    def _begin(self, prompt: str) -> None:
        self._close_session()

        def open_session(server: VllmOmniServer, by: float) -> OmniSession:
            update = session_update(server.model, prompt, self._config, self._voice)
            session = OmniSession(server.access, self._interrupted)
            try:
                session.open(update, by - time.monotonic())
            except NotOffered as reason:
                session.close()
                raise ServerUnavailable(f"{server.address}: {reason}") from reason
            except BaseException:
                session.close()
                raise
            return session

        self._session = self._on_a_server(open_session)
        self._reset()

    def prefill(
        self,
        audio: Samples,
        frames: Sequence[bytes] = (),
        max_slice_nums: int = 1,  # noqa: ARG002  # `prepare` has refused others
    ) -> PrefillReport:
        """Keep the input for `generate`: the protocol has one message for both steps."""
        if not len(audio):
            raise InputRefused("a unit without sound cannot be sent to vLLM-Omni")
        self._input = (audio, frames)
        return PrefillReport(cost_ms=0.0)

    def generate(self, force_listen: bool = False) -> UnitResult:
        session = self._prepared()
        try:
            self._wait_for_answers(session)
            if force_listen:
                self._interrupt(session)
            audio, frames = self._input
            session.send(append(audio, frames, force_listen=force_listen))
            self._owed_s += len(audio) / INPUT_RATE
            self._silent_s += len(audio) / INPUT_RATE
            self._collect(session, forced=force_listen)
            session.acknowledge()
        except SessionLost as lost:
            raise self._lost(lost) from lost
        self._trial_left = max(0, self._trial_left - 1)
        unit, self._unit = self._unit, _Unit()
        return self._silence() if force_listen else self._result(unit)

    def played(self, played_ms: float) -> None:
        session = self._prepared()
        if not self._last_response or not session.can("playback_ack"):
            return
        done = int(played_ms)
        report = {"type": "playback.ack", "played_ms": done, "committed_ms": done}
        try:
            session.send(report | {"response_id": self._last_response})
        except SessionLost as lost:
            raise self._lost(lost) from lost

    def replay(self, units: Sequence[PastUnit]) -> None:
        """What was said before the newest sound remains as text."""
        if prompt := prompt_with_past(self._prompt, units):
            self._begin(prompt)
        self._trial_left = _TRIAL_UNITS
        for unit in units:
            if unit.audio is not None and len(unit.audio):
                self.prefill(unit.audio, unit.frames)
                self.generate(force_listen=True)

    def _lost(self, lost: SessionLost) -> EngineLost:
        """What to raise for a lost session: another server continues it, unless it may be the cause."""
        self._close_session()
        self._leave_server(str(lost))
        if self._trial_left:
            return EngineLost(f"{lost}; please start a new conversation")
        return EngineBusy(str(lost))

    def _interrupt(self, session: OmniSession) -> None:
        self._held = SILENCE
        if self._response:
            session.send({"type": "response.cancel", "response_id": self._response})
            self._dropped, self._response = self._response, ""

    def _wait_for_answers(self, session: OmniSession) -> None:
        """Let a server that is slower than real time catch up. Raises EngineLost if it is silent.

        While it answers, a unit in which it listens has no event, so there is nothing to wait for.
        """
        limit_s = self._options.stall_timeout_s
        if self._response and self._silent_s > limit_s:
            self._take_next(session, 0.0)
        while self._owed_s >= _MOST_OWED_S and not self._response and not self._interrupted():
            self._take_next(session, limit_s)

    def _take_next(self, session: OmniSession, timeout_s: float) -> None:
        """Raises EngineLost if there is no event within `timeout_s`."""
        if event := session.next(timeout_s):
            self._take(event)
        elif not self._interrupted():
            limit_s = self._options.stall_timeout_s
            raise EngineLost(f"the backend server has sent nothing for {limit_s:g} s")

    def _collect(self, session: OmniSession, *, forced: bool) -> None:
        by = time.monotonic() + len(self._input[0]) / INPUT_RATE
        while not self._interrupted() and not self._unit.ended:
            if self._unit.listens and (forced or not self._response):
                return
            until = by if self._unit.settles_at is None else min(by, self._unit.settles_at)
            event = session.next(until - time.monotonic())
            if event is None:
                return
            self._take(event)

    def _take(self, event: OmniEvent) -> None:
        unit, self._silent_s = self._unit, 0.0
        match event.kind:
            case EventKind.LISTENS:
                self._owed_s = max(0.0, self._owed_s - _UNIT_S)
                unit.listens = True
            case EventKind.ANSWER_BEGINS:
                self._response = self._last_response = event.response_id
            case EventKind.ANSWER_ENDS:
                self._owed_s = 0.0
                unit.ended = bool(self._response) and event.response_id == self._response
                if unit.ended:
                    self._response = ""
            case EventKind.SOUND if event.response_id != self._dropped:
                if self._config.generate_audio:
                    unit.sound.append(event.sound)
            case EventKind.TEXT if event.response_id != self._dropped:
                # Its text is the last message of a unit that speaks.
                self._owed_s = max(0.0, self._owed_s - _UNIT_S)
                unit.listens = False
                unit.texts.append(event.text)
                unit.settles_at = time.monotonic() + _SETTLE_S

    def _silence(self) -> UnitResult:
        return UnitResult(is_listen=True)

    def _result(self, unit: _Unit) -> UnitResult:
        text = "".join(unit.texts)
        sound = np.concatenate([self._held, *unit.sound])
        sent, self._held = sound[:_MOST_SAMPLES], sound[_MOST_SAMPLES:]
        if not (text or len(sound) or self._response or unit.ended):
            return self._silence()
        ends = not self._response and not len(self._held)
        return UnitResult(is_listen=False, text=text, audio=sent, end_of_turn=ends)
