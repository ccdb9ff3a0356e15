"""The engine's loaded models, and the share of them that one session holds."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.silero import SpeechDetector
from antiphon.inference_worker.engines.local.dialogue import (
    LlmMessage,
    turn_tokens,
    without_faults,
)
from antiphon.inference_worker.engines.local.doubt import asks_number
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard, Repeats
from antiphon.inference_worker.engines.local.head_start import HeadStartGeneration
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.language_model import Generation, LanguageModel
from antiphon.inference_worker.engines.local.llm import LocalLanguageModel
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.recall import recalled, said_already
from antiphon.inference_worker.engines.local.reference.dictionary import dictionary
from antiphon.inference_worker.engines.local.remote.faults import FAULTS
from antiphon.inference_worker.engines.local.remote.llm import RemoteLanguageModel
from antiphon.inference_worker.engines.local.rules.situation import CANNOT_SEE
from antiphon.inference_worker.engines.local.rules.tools import RULE_TOOLS, ToolRounds
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.local.stored_models import bundled_model, check_gguf
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.inference_worker.engines.types import ContextFull, EngineError, LoadProgress
from antiphon.shared_schemas.config import DuplexConfig, GenerationConfig

_RULE_TOKENS = math.ceil(turn_tokens(orjson.dumps(RULE_TOOLS).decode()))

NEXT_UTTERANCE_TOKENS = 160
"""Context reserved for the user's next utterance."""


@dataclass(frozen=True, slots=True)
class LocalModels:
    """The models with weights."""

    recogniser: Recogniser
    voices: Voices
    llm: LanguageModel
    sight: Sight | None = None
    """None if the language model takes pictures itself, or if nothing sees."""

    @classmethod
    def load(cls, options: LocalOptions, report: LoadProgress) -> "LocalModels":
        """Load all models. Raises EngineLoadError with the remedy."""
        path = None if options.llm_url else options.model_path or bundled_model()
        if path is not None:
            check_gguf(path)
        report("speech detector")
        SpeechDetector()
        report("speech recogniser")
        recogniser = Recogniser(options.language)
        report("voices")
        voices = Voices.load(options.voice, options.words_per_minute, options.language)
        sight = None
        if options.sight and not options.llm_sees:
            report("sight")
            sight = Sight.load()
        if options.knows_little:
            report("dictionary")
            dictionary()
        report("language model")
        return cls(recogniser, voices, _language_model(options, path), sight)

    @property
    def sees(self) -> bool:
        return self.llm.sees or self.sight is not None

    def without_picture(self, sentence: str) -> str:
        """What a session answers to a question about a picture that it does not have.

        `sentence` says why there is none. Empty: the language model answers, because it sees.
        """
        if self.llm.sees:
            return ""
        return CANNOT_SEE if self.sight is None else sentence

    def close(self) -> None:
        if self.sight is not None:
            self.sight.close()
        self.llm.close()


def _language_model(options: LocalOptions, path: Path | None) -> LanguageModel:
    if path is None:
        remote = RemoteLanguageModel.of(options)
        remote.open()
        return remote
    return LocalLanguageModel(
        path,
        options.slots,
        options.context_tokens,
        options.llm_threads,
        doubts_numbers=options.knows_little,
    )


@dataclass(slots=True)
class LocalSlot:
    """A session's slot. `pool` runs background work; `release` runs once, when the slot is closed."""

    number: int
    options: LocalOptions
    pool: Executor
    loaded: LocalModels | None
    tokens: TokenCounter = field(default_factory=TokenCounter)
    release: ExitStack = field(default_factory=ExitStack)

    @property
    def models(self) -> LocalModels:
        """Raises EngineError after `close`."""
        if self.loaded is None:
            raise EngineError("the session has been cleaned up")
        return self.loaded

    @property
    def context_tokens(self) -> int:
        """The context without the definitions of tools."""
        return self.options.context_tokens - (_RULE_TOKENS if self._rule_tools else 0)

    def read(
        self,
        messages: Sequence[LlmMessage],
        *,
        reuse_cache: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Let the language model read `messages`; returns their length in tokens."""
        llm, counter, tools = self.models.llm, self.tokens, tools or self._rule_tools
        return llm.prefill(
            self._recalled(messages),
            self.number,
            reuse_cache=reuse_cache,
            counter=counter,
            tools=tools,
        )

    def stream(
        self,
        messages: Sequence[LlmMessage],
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
        now: Callable[[], datetime],
        tools: Sequence[dict[str, Any]] = (),
        *,
        must_call: bool = False,
        spoken: bool = False,
    ) -> Generation:
        """Start a reply of the language model, which may call the rules if there are no other `tools`.

        A `spoken` one of the bundled model rests while its first words become sound.
        """
        doubts = asks_number(messages[-1])  # the first sentence is judged in one go
        if spoken and self.options.bundled_model and not (tools or doubts):
            return self._with_head_start(self._recalled(messages), config, max_tokens)

        def begin(messages: Sequence[LlmMessage], tools: Sequence[dict[str, Any]]) -> Generation:
            llm = self.models.llm
            read = self._recalled(messages)
            return llm.stream(
                read, self.number, config, max_tokens, self.tokens, tools, must_call=must_call
            )

        if tools or not self._rule_tools:
            return begin(messages, tools)
        return ToolRounds(begin, messages, now)

    def _with_head_start(
        self,
        messages: Sequence[LlmMessage],
        config: DuplexConfig | GenerationConfig,
        max_tokens: int,
    ) -> HeadStartGeneration:
        *before, last = messages
        begun = last["content"] if last["role"] == "assistant" else ""
        asked = before if begun else messages

        def begin(said: str, tokens: int) -> Generation:
            answer = f"{begun}{said}"
            so_far = [{"role": "assistant", "content": answer}] if answer else []
            return self.models.llm.stream(
                [*asked, *so_far], self.number, config, tokens, self.tokens
            )

        return HeadStartGeneration(begin, max_tokens)

    def answer_guard(
        self, *, ends_empty: bool, repeats: Repeats, messages: Sequence[LlmMessage] = ()
    ) -> AnswerGuard:
        """`messages`: with `ends_empty`, what the answer is to, and what it must not say again."""
        options = self.options
        return AnswerGuard(
            filter_obscene=options.filter_obscene,
            language=options.language,
            ends_empty=ends_empty,
            repeats=repeats,
            said=said_already(messages) if ends_empty else (),
        )

    @property
    def _rule_tools(self) -> Sequence[dict[str, Any]]:
        llm = self.models.llm
        offered = self.options.offers_rules and llm.knows_tools and not llm.refuses_rules
        return RULE_TOOLS if offered else ()

    def end_probability(self, messages: Sequence[LlmMessage]) -> float | None:
        """How probable it is that the user's turn ends with `messages`; None if that is not known."""
        try:
            return self.models.llm.end_probability(
                self._recalled(messages, examples=False), self.number, self.tokens, self._rule_tools
            )
        except ContextFull:
            return None  # the answer makes room, or says so

    def _recalled(
        self, messages: Sequence[LlmMessage], *, examples: bool = True
    ) -> Sequence[LlmMessage]:
        """What a larger model reads is the whole conversation, without what was said in place of an answer."""
        if self.options.bundled_model:
            return recalled(messages, examples=examples)
        return without_faults(messages, FAULTS, self.options.language)

    def read_prompt(self, messages: Sequence[LlmMessage], room: int) -> int:
        """Length of a system prompt. Raises ContextFull unless the user's next utterance fits too."""
        tokens = self.read(messages, reuse_cache=False)
        room -= NEXT_UTTERANCE_TOKENS
        if tokens > room:
            raise ContextFull(f"the system prompt has {tokens} tokens; {room} is the most that fit")
        return tokens

    def close(self) -> None:
        self.loaded = None
        self.release.close()
