"""A half-duplex conversation, as a worker thread uses it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    AudioClip,
    ReadOptions,
    read_message,
)
from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import (
    EngineParts,
    SlotLease,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import (
    Bookmark,
    TurnConversation,
    WrittenAnswer,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import FIRST_SAMPLES, clip_mels
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.minicpmo.views.answering import (
    AnswerQueue,
    MiniCPMOAnsweringView,
)
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import Delta, EngineError, PastTurn
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import GenerationConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage

SAMPLES_PER_EMBEDDING = INPUT_RATE // 10
TURN_MARKS = 64
"""More than the tokens around an utterance, the opening of its answer, and padding."""


class TurnMemo(BaseModel):
    """What a half-duplex turn records for recovery. A `greeting` has no utterance before it; the user
    `stopped` the answer or not.
    """

    tokens: tuple[int, ...] = ()
    greeting: bool = False
    stopped: bool = False


class MiniCPMOHalfDuplexView(MiniCPMOAnsweringView, HalfDuplexView):
    """One turn-based conversation in its slot. Rollback only restores lengths."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        super().__init__(parts, lease)
        self._config = HalfDuplexConfig()
        self._mark: Bookmark | None = None
        self._greeting = False

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        """Feed the system message and set the voice. A second call starts over."""
        self._config = config
        if config.tts.enabled:
            self._clone_voice(ref_audio)
        self._lease.clear()
        session = self._session = self._new_session()
        reading = ReadOptions(settings=self._parts.config.slice_config, max_slices=1)
        parts = read_message(system, reading, "system_content")
        with self._counting_input(parts):
            self._lease.run(session.system(parts))
        self._mark = session.bookmark()
        return session.length

    def greet(self, said: str) -> Iterator[Delta]:
        self._ready()
        self._broken, self._greeting = False, True
        tokenizer = self._parts.tokenizer
        words = tokenizer.plain(tokenizer.encode(self._config.greeting.strip()))
        count = next(
            n for n in range(len(words) + 1) if len(tokenizer.decode(words[:n])) >= len(said)
        )
        output = AnswerQueue(said)
        yield from self._stream(output, self._write_greeting(output, words, count))

    def prefill(self, utterance: Samples) -> None:
        """Feed one utterance and open the answer."""
        session = self._ready()
        self._greeting = False
        # Before anything changes: a turn that fails here is rolled back, and not the one before it.
        self._mark, self._broken = session.bookmark(), False
        self._lease.run(self._make_room(session, utterance))
        with self._counting_input():
            self._lease.run(self._feed_utterance(session, utterance))

    def _generation(self) -> GenerationConfig:
        self._ready()
        return self._config.generation

    def memo(self) -> dict[str, Any]:
        last = self._last
        memo = TurnMemo(
            tokens=() if last is None else last.tokens,
            greeting=self._greeting,
            stopped=last is None or last.stopped,
        )
        return memo.model_dump(mode="json")

    def rollback(self) -> None:
        session = self._ready()
        if self._mark is not None:
            session.rollback(self._mark)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        session = self._ready()
        for turn in turns:
            self._lease.run(self._feed_past_turn(session, turn))

    def set_break(self) -> None:
        self._broken = True

    def cleanup(self) -> None:
        self._mark = None
        super().cleanup()

    @property
    def kv_cache_length(self) -> int:
        return self._session.length

    def _ready(self) -> TurnConversation:
        if self._mark is None:
            raise EngineError("prepare must come first")
        return self._session

    def _make_room(self, session: TurnConversation, utterance: Samples) -> Steps[None]:
        answer = min(
            self._config.generation.max_new_tokens, self._parts.options.context_tokens // 4
        )
        sound = len(utterance) // SAMPLES_PER_EMBEDDING
        yield from session.make_room(sound + TURN_MARKS + answer)

    def _feed_utterance(self, session: TurnConversation, utterance: Samples) -> Steps[None]:
        missing = max(0, FIRST_SAMPLES - len(utterance))
        yield from session.user([AudioClip(clip_mels(np.pad(utterance, (missing, 0))))])
        yield from session.open_answer()

    def _write_greeting(
        self, output: AnswerQueue, words: Sequence[int], said: int
    ) -> Steps[WrittenAnswer]:
        speech, session = self._speech(output), self._session
        stopped = lambda: self._broken  # noqa: E731
        greeting = yield from session.greet(words, output.put_text, stopped, speech, said)
        output.finish(greeting.text)
        return greeting

    def _feed_past_turn(self, session: TurnConversation, turn: PastTurn) -> Steps[None]:
        memo = TurnMemo.model_validate(turn.memo)
        made = () if turn.cut else memo.tokens
        tokens = made or tuple(self._parts.tokenizer.encode(turn.text))
        if memo.greeting:
            yield from session.open_greeting()
        else:
            audio = np.zeros(INPUT_RATE, dtype=np.float32) if turn.audio is None else turn.audio
            yield from self._make_room(session, audio)
            yield from self._feed_utterance(session, audio)
        spoken = self._voice is not None and not (memo.stopped or turn.cut)
        yield from session.replay_answer(tokens, spoken=spoken and not memo.greeting)
        if memo.greeting:
            session.protect()
