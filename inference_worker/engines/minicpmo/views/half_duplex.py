"""A half-duplex conversation, as a worker thread uses it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.minicpmo.sessions.answers import AnsweringSession
from antiphon.inference_worker.engines.minicpmo.sessions.message_parts import (
    ReadOptions,
    read_message,
)
from antiphon.inference_worker.engines.minicpmo.sessions.prompts import AudioClip
from antiphon.inference_worker.engines.minicpmo.sessions.slot_lease import EngineParts, SlotLease
from antiphon.inference_worker.engines.minicpmo.sessions.turns import Bookmark, TurnConversation
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import Delta, EngineError, PastTurn, PrefillReport
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage


class TurnMemo(BaseModel):
    """What a half-duplex turn records for recovery."""

    tokens: tuple[int, ...] = ()
    cut: bool = False


class MiniCPMOHalfDuplexView(HalfDuplexView):
    """One turn-based conversation in its slot. Rollback only restores lengths."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        self._turns = AnsweringSession(parts, lease)
        self._config = HalfDuplexConfig()
        self._mark: Bookmark | None = None

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        """Feed the system message and set the voice. A second call starts over."""
        turns, self._config = self._turns, config
        if config.tts.enabled:
            turns.voice = turns.parts.clone_voice(ref_audio)
        session = turns.restart()
        reading = ReadOptions(settings=turns.parts.config.slice_config, max_slices=1)
        parts = read_message(system, reading, "system_content")
        turns.lease.run(session.system(parts))
        self._mark = session.bookmark()
        return session.length

    def prefill(self, utterance: Samples) -> PrefillReport:
        """Feed one utterance and open the answer."""
        began, session = time.perf_counter(), self._ready()
        self._mark, self._turns.broken = session.bookmark(), False
        self._turns.lease.run(self._feed_utterance(session, utterance))
        return PrefillReport(cost_ms=(time.perf_counter() - began) * 1000)

    def generate(self) -> Iterator[Delta]:
        return self.resume("")

    def resume(self, said: str) -> Iterator[Delta]:
        """The rest of an answer that begins with `said`, which is not spoken again."""
        self._ready()
        yield from self._turns.answer(self._config.generation, said)

    def memo(self) -> dict[str, Any]:
        last = self._turns.last
        memo = TurnMemo() if last is None else TurnMemo(tokens=last.tokens, cut=last.cut)
        return memo.model_dump(mode="json")

    def rollback(self) -> None:
        session = self._ready()
        if self._mark is not None:
            session.rollback(self._mark)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        session = self._ready()
        for turn in turns:
            self._turns.lease.run(self._feed_past_turn(session, turn))

    def set_break(self) -> None:
        self._turns.broken = True

    def stop(self) -> None:
        self._turns.lease.stop()

    def cleanup(self) -> None:
        self._mark = self._turns.voice = None
        self._turns.lease.close()

    @property
    def kv_cache_length(self) -> int:
        return self._turns.session.length

    def _ready(self) -> TurnConversation:
        if self._mark is None:
            raise EngineError("prepare must come first")
        return self._turns.session

    def _feed_utterance(self, session: TurnConversation, utterance: Samples) -> Steps[None]:
        shape = session.audio_input.stream.shape
        missing = max(0, shape.first_samples - len(utterance))
        yield from session.utterance(AudioClip(clip_mels(np.pad(utterance, (missing, 0)))))
        yield from session.open_answer(speak=self._config.tts.enabled)

    def _feed_past_turn(self, session: TurnConversation, turn: PastTurn) -> Steps[None]:
        audio = turn.audio if turn.audio is not None else np.zeros(INPUT_RATE, dtype=np.float32)
        memo = TurnMemo.model_validate(turn.memo)
        tokens = memo.tokens or tuple(self._turns.parts.tokenizer.encode(turn.text))
        yield from self._feed_utterance(session, audio)
        yield from session.replay_answer(tokens, cut=memo.cut)
