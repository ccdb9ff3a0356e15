"""One half-duplex session of the local engine: an utterance is written down, answered and spoken."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from antiphon.inference_worker.engines.local.answer import Answer
from antiphon.inference_worker.engines.local.costs import milliseconds_since
from antiphon.inference_worker.engines.local.dialogue import Dialogue
from antiphon.inference_worker.engines.local.llm import Sampling
from antiphon.inference_worker.engines.local.models import Models
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.transcript import transcribe
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    PastTurn,
    PrefillReport,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, TextPart

_NEXT_UTTERANCE_TOKENS = 160
_REPLY_SHARE = 4
"""At most this fraction of the context is kept free for an answer, whatever `max_new_tokens` is."""


class LocalHalfDuplexView(HalfDuplexView):
    """A session on slot `slot`; `release` is called once, when it is cleaned up.

    The context grows turn by turn; where it would overflow, the oldest turns are forgotten.
    Reference voices are ignored: eSpeak clones none. A turn's memo holds `user`, its transcript.
    """

    def __init__(
        self, models: Models, slot: int, options: LocalOptions, release: Callable[[], None]
    ) -> None:
        self._models: Models | None = models
        self._slot = slot
        self._options = options
        self._release = release
        self._config = HalfDuplexConfig()
        self._dialogue: Dialogue | None = None
        self._before: Dialogue | None = None
        self._heard = ""
        self._answer: Answer | None = None
        self._context_tokens = 0
        self._stopped = threading.Event()

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002  # eSpeak clones no voices
    ) -> int:
        """Read the system message's words; its audio is a voice to imitate and is ignored.

        Raises UnsupportedContent for a picture, ContextFull if it is too long.
        """
        for index, part in enumerate(system.parts):
            if not isinstance(part, TextPart | AudioPart):
                where = f"system_content.{index}"
                raise UnsupportedContent("the local engine does not see", where)
        self._config = config
        self._dialogue = Dialogue(system.text)
        self._context_tokens = self._read(self._dialogue)
        room = self._room - _NEXT_UTTERANCE_TOKENS
        if self._context_tokens > room:
            raise ContextFull(
                f"the system prompt has {self._context_tokens} tokens; {room} is the most that fit"
            )
        return self._context_tokens

    def prefill(self, utterance: Samples) -> PrefillReport:
        """Write the utterance down; one without a word is no turn, and gets no answer."""
        begun = time.perf_counter()
        dialogue = self._ready()
        self._before = copy.deepcopy(dialogue)
        recogniser = self._live_models().recogniser
        self._heard = transcribe(recogniser, utterance, self._stopped.is_set)
        if self._heard:
            dialogue.hear(self._heard)
        return PrefillReport(cost_ms=milliseconds_since(begun))

    def generate(self) -> Iterator[Delta]:
        """The answer, clause by clause; token by token where it is not spoken."""
        return self._say()

    def resume(self, said: str) -> Iterator[Delta]:
        """The rest of the answer that begins with `said`."""
        self._ready().say(said)
        return self._say()

    def memo(self) -> dict[str, Any]:
        """What the user was understood to say."""
        return {"user": self._heard} if self._heard else {}

    def rollback(self) -> None:
        """Forget the last utterance and its answer."""
        if self._before is not None:
            self._dialogue, self._before = self._before, None
            self._context_tokens = self._read(self._dialogue)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        """Retell the turns from their transcripts; those without are heard again."""
        dialogue = self._ready()
        for turn in turns:
            heard = str(turn.memo.get("user", ""))
            if not heard and turn.text and turn.audio is not None:
                heard = transcribe(self._live_models().recogniser, turn.audio)
            if heard:
                dialogue.hear(heard)
            dialogue.say(turn.text)
            dialogue.end_turn()
        dialogue.trim(self._room)
        if turns:
            self._context_tokens = self._read(dialogue)

    def set_break(self) -> None:
        """End the answer being generated."""
        if (answer := self._answer) is not None:
            answer.end()

    def stop(self) -> None:
        """Abandon work in progress; nothing is said any more."""
        self._stopped.set()
        self.set_break()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        if self._models is not None:
            self._models = self._dialogue = self._before = None
            self._release()

    @property
    def kv_cache_length(self) -> int:
        """Tokens the model had in its context when it last finished reading or writing."""
        return self._context_tokens

    def _say(self) -> Iterator[Delta]:
        dialogue = self._ready()
        if not self._heard or self._stopped.is_set():
            return
        dialogue.trim(self._room)
        self._answer = answer = self._begin(dialogue)
        if self._stopped.is_set():
            answer.end()
        try:
            yield from answer
        finally:
            self._answer = None
            dialogue.say(answer.text)
            dialogue.end_turn()
            self._context_tokens = answer.context_tokens or self._context_tokens

    def _begin(self, dialogue: Dialogue) -> Answer:
        models, generation = self._live_models(), self._config.generation
        text = models.llm.stream(
            dialogue.messages(), self._slot, Sampling.of(generation), generation.max_new_tokens
        )
        return Answer(text, models.speaker if self._config.tts.enabled else None)

    @property
    def _room(self) -> int:
        context = self._options.context_tokens
        return context - min(self._config.generation.max_new_tokens, context // _REPLY_SHARE)

    def _read(self, dialogue: Dialogue) -> int:
        return self._live_models().llm.prefill(dialogue.messages(), self._slot, afresh=True)

    def _live_models(self) -> Models:
        if self._models is None:
            raise EngineError("the session has been cleaned up")
        return self._models

    def _ready(self) -> Dialogue:
        if self._dialogue is None:
            raise EngineError("the session is not prepared")
        return self._dialogue
