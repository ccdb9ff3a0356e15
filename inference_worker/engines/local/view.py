"""One full-duplex session of the local engine: the method chain, unit by unit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from antiphon.inference_worker.engines.local import recovery
from antiphon.inference_worker.engines.local.conversation import Conversation
from antiphon.inference_worker.engines.local.costs import milliseconds_since
from antiphon.inference_worker.engines.local.ear import Ear, Heard
from antiphon.inference_worker.engines.local.endpoint import BARGE_IN_MS, EndpointRules
from antiphon.inference_worker.engines.local.models import Models
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.speech import UnitSpeech
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import EngineError, PastUnit, PrefillReport
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

_WAIT_SHARE = 0.8
_MAX_WAIT_S = 0.8
"""`generate` waits for speech until _WAIT_SHARE of the unit's duration, or _MAX_WAIT_S if that
is less, has passed since its prefill began: a unit never takes longer than it lasts."""


@dataclass(slots=True)
class _Unit:
    """The unit between its prefill and its generate."""

    begun: float
    seconds: float
    prefill_ms: float = 0.0
    interrupted: bool = False
    memo: dict[str, Any] | None = None

    @property
    def deadline(self) -> float:
        return self.begun + min(_MAX_WAIT_S, _WAIT_SHARE * self.seconds)


class LocalDuplexView(DuplexView):
    """A session on slot `slot`; `release` is called once, when it is cleaned up.

    In its results `n_tokens` counts the model tokens of the unit's text, `n_tts_tokens` the
    phonemes that begin in the unit's audio. `cost_llm_ms`, `cost_tts_ms` (eSpeak) and
    `cost_token2wav_ms` (resampling) are the time that background threads spent since the
    previous result; `cost_all_ms` is the wall time of this unit's prefill and generate.
    """

    def __init__(
        self,
        models: Models,
        pool: Executor,
        slot: int,
        options: LocalOptions,
        release: Callable[[], None],
    ) -> None:
        self._models: Models | None = models
        self._pool = pool
        self._slot = slot
        self._options = options
        self._release = release
        self._config = DuplexConfig()
        self._talk: Conversation | None = None
        self._ear: Ear | None = None
        self._unit: _Unit | None = None
        self._units = 0
        self._heard_ms = 0.0
        self._break = False

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002  # eSpeak clones no voices
        tts_ref_audio: Samples | None = None,  # noqa: ARG002
    ) -> int:
        """Read the system prompt; returns its length in tokens. Raises ContextFull if too long.

        Reference voices are ignored.
        """
        models = self._live_models()
        self._config = config
        rules = EndpointRules.scaled(self._options.end_silence_ms, config.listen_prob_scale)
        self._ear = Ear(models.recogniser, rules)
        self._talk = Conversation(
            models, self._pool, self._slot, self._options, config, system_prompt
        )
        self._units, self._heard_ms, self._break = 0, 0.0, False
        return self._talk.prompt_tokens

    def prefill(
        self,
        audio: Samples,
        frames: Sequence[bytes] = (),  # noqa: ARG002  # the engine does not see
        max_slice_nums: int = 1,  # noqa: ARG002
    ) -> PrefillReport:
        """Hear one unit; if an utterance ends in it, its reply is begun in the background.

        It is begun too where an utterance has probably ended; then it waits to be asked for.
        """
        talk, ear = self._conversation(), self._hearing()
        unit = _Unit(time.perf_counter(), len(audio) / INPUT_RATE)
        heard = ear.feed(audio)
        self._react(talk, ear, heard, unit)
        self._heard_ms += unit.seconds * 1000.0
        unit.prefill_ms = milliseconds_since(unit.begun)
        self._unit = unit
        return PrefillReport(cost_ms=unit.prefill_ms)

    def generate(self, force_listen: bool = False) -> UnitResult:
        """Listen or speak. Raises EngineError if work in the background failed."""
        talk = self._conversation()
        unit, self._unit = self._unit, None
        if unit is None:
            raise EngineError("generate needs a unit that was prefilled")
        begun = time.perf_counter()
        silenced = force_listen or self._break or self._units < self._config.force_listen_count
        self._units += 1
        if silenced:
            talk.interrupt()
        speech = None
        if not silenced and not unit.interrupted:
            samples = round(unit.seconds * OUTPUT_RATE)
            limit = self._config.max_new_speak_tokens_per_chunk
            speech = talk.next_unit(samples, limit, unit.deadline)
        talk.raise_failure()
        return self._result(talk, unit, speech, milliseconds_since(begun))

    def finalize(self) -> None:
        """Let the model read the turn that has just ended, in the background."""
        self._conversation().settle()

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Take over: history from memos and texts, then the utterance and the reply in progress."""
        talk, ear = self._conversation(), self._hearing()
        recovery.retell(units, talk.dialogue)
        self._units = len(units)
        self._heard_ms = sum(self._duration_ms(unit) for unit in units)
        if rest := recovery.rest_of(units):
            talk.resume(rest)
        if text := recovery.rehear(units, ear):
            talk.interrupt()
            talk.hear(text)
        talk.read_ahead()

    def played(self, played_ms: float) -> None:
        """Cut what is broken off at the word that the client had played when it was."""
        self._conversation().dialogue.played(played_ms)

    def set_break(self) -> None:
        """Fall silent at the next unit; what the user says is answered after `clear_break`."""
        self._break = True

    def clear_break(self) -> None:
        """Speak again when there is something to say."""
        self._break = False

    def stop(self) -> None:
        """Abandon the reply in progress; the session only listens from now on."""
        if self._talk is not None:
            self._talk.stop()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        if self._models is not None:
            self._models = self._talk = self._ear = None
            self._release()

    @property
    def kv_cache_length(self) -> int:
        """Tokens the model had in its context when it last finished reading or writing."""
        return self._talk.context_tokens if self._talk is not None else 0

    def _react(self, talk: Conversation, ear: Ear, heard: Heard, unit: _Unit) -> None:
        if talk.speaking:
            if heard.voiced_ms < BARGE_IN_MS:
                return
            talk.interrupt()
            unit.interrupted = True
        if heard.text:
            unit.memo = recovery.memo_of_hearing(heard)
            talk.hear(heard.text)
        if expected := ear.likely_utterance():
            talk.expect(expected)
        elif heard.talking_ms >= BARGE_IN_MS:
            talk.withdraw()
        else:
            talk.answer()

    def _result(
        self, talk: Conversation, unit: _Unit, speech: UnitSpeech | None, generate_ms: float
    ) -> UnitResult:
        spent = talk.costs.drain()
        memo = unit.memo or {}
        common: dict[str, Any] = {
            "current_time": round(self._heard_ms),
            "cost_llm_ms": spent.get("llm", 0.0),
            "cost_tts_ms": spent.get("tts", 0.0),
            "cost_token2wav_ms": spent.get("token2wav", 0.0),
            "cost_all_ms": unit.prefill_ms + generate_ms,
            "kv_cache_length": talk.context_tokens,
        }
        if speech is None:
            return UnitResult(is_listen=True, memo=memo, **common)
        memo = memo | recovery.memo_of_speech(speech)
        if rest := talk.rest():
            memo = memo | recovery.memo_of_rest(rest)
        return UnitResult(
            is_listen=False,
            text=speech.text,
            audio=speech.audio,
            end_of_turn=speech.last,
            n_tokens=speech.tokens,
            n_tts_tokens=speech.phonemes,
            memo=memo,
            **common,
        )

    def _duration_ms(self, unit: PastUnit) -> float:
        if unit.audio is None:
            return float(self._config.chunk_ms)
        return len(unit.audio) / INPUT_RATE * 1000.0

    def _live_models(self) -> Models:
        if self._models is None:
            raise EngineError("the session has been cleaned up")
        return self._models

    def _conversation(self) -> Conversation:
        if self._talk is None:
            raise EngineError("the session is not prepared")
        return self._talk

    def _hearing(self) -> Ear:
        if self._ear is None:
            raise EngineError("the session is not prepared")
        return self._ear
