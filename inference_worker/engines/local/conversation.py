"""The assistant's side of a session: when a reply is made, spoken, broken off or withdrawn."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future

from antiphon.inference_worker.engines.local.costs import Costs
from antiphon.inference_worker.engines.local.dialogue import Dialogue, Message, turn_tokens
from antiphon.inference_worker.engines.local.llm import Sampling
from antiphon.inference_worker.engines.local.models import Models
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.reply import Reply, Rest
from antiphon.inference_worker.engines.local.speech import UnitSpeech
from antiphon.inference_worker.engines.types import ContextFull, EngineError
from antiphon.shared_schemas.config import DuplexConfig

_NEXT_UTTERANCE_TOKENS = 160
"""Room kept free in the context for what the user says next."""


class Conversation:
    """One session's dialogue and, at most, one reply to it.

    A reply that the user has heard some of can be interrupted; one not begun can be withdrawn,
    and its question stays open. A reply to words that the user has only probably ended is made,
    but not said before they have. All methods but `stop` belong to the session's thread.
    """

    def __init__(
        self,
        models: Models,
        pool: Executor,
        slot: int,
        options: LocalOptions,
        config: DuplexConfig,
        system_prompt: str,
    ) -> None:
        self.dialogue = Dialogue(system_prompt)
        self.costs = Costs()
        self._models = models
        self._pool = pool
        self._slot = slot
        self._options = options
        self._config = config
        self._reply: Reply | None = None
        self._expected = ""
        self._reading_ahead: Future[None] | None = None
        self._turn_ended = False
        self._stopped = threading.Event()
        self.context_tokens = self.prompt_tokens = self._read_prompt()

    @property
    def speaking(self) -> bool:
        """True while a reply is under way that the user has heard some of."""
        return self._reply is not None and self._reply.begun

    def expect(self, text: str) -> None:
        """The user has probably said `text`: begin the reply that `hear` of the same will keep."""
        if text != self._expected:
            self.withdraw()
            self._begin(expected=text)
            self._expected = text

    def hear(self, text: str) -> None:
        """The user said `text`: a reply to anything else is withdrawn, to answer all of it."""
        if text != self._expected:
            self.withdraw()
        self._expected = ""
        self.dialogue.hear(text)

    def answer(self) -> None:
        """Begin a reply if the user waits for one."""
        if self._expected:
            self.withdraw()
        if self._reply is None and self.dialogue.unanswered:
            self._begin()

    def resume(self, rest: Rest) -> None:
        """Go on with the reply that another worker left unfinished."""
        self._begin(rest)

    def withdraw(self) -> None:
        """Drop a reply that is not begun; its question stays open."""
        self._expected = ""
        if self._reply is not None and not self._reply.begun:
            self._reply.cancel()
            self._reply = None

    def interrupt(self) -> None:
        """Fall silent: the rest of a reply that is begun is dropped."""
        if self._reply is not None and self._reply.begun:
            self._reply.cancel()
            self.dialogue.break_off()
            self._end_turn()

    def next_unit(self, samples: int, tokens: int, deadline: float) -> UnitSpeech | None:
        """The next `samples` of speech, waited for until `deadline`; None if nothing is to be said.

        `tokens` limits the text; `deadline` is a value of time.perf_counter(). Raises EngineError
        if making the reply failed.
        """
        reply = self._reply
        if reply is None or self._expected:
            return None
        reply.queue.wait(samples, tokens, deadline)
        self.raise_failure()
        if self._stopped.is_set():
            return None
        speech = reply.queue.take(samples, tokens)
        if not reply.begun and not speech.text:
            self._drop_if_wordless(reply)
            return None
        reply.begun = True
        self.dialogue.speak(speech.pieces, speech.sound_ms)
        self.context_tokens = reply.context_tokens or self.context_tokens
        if speech.last:
            self._end_turn()
        return speech

    def rest(self) -> Rest | None:
        """What is still to be said of a reply that is begun."""
        return self._reply.rest() if self._reply is not None and self._reply.begun else None

    def settle(self) -> None:
        """After a turn: read ahead."""
        if self._turn_ended:
            self._turn_ended = False
            self.read_ahead()

    def read_ahead(self) -> None:
        """Let the model read the dialogue while nobody waits, unless it is replying already."""
        if self._stopped.is_set():
            return
        self.dialogue.trim(self._room - _NEXT_UTTERANCE_TOKENS)
        if self._reply is None:
            self._reading_ahead = self._pool.submit(self._read, self.dialogue.messages())

    def raise_failure(self) -> None:
        """Raise, once, what went wrong in the background since the last call."""
        error = self._reply.failure if self._reply is not None and not self._expected else None
        if error is not None:
            self._reply = None
            self.dialogue.end_turn()
            self.dialogue.excuse()
        elif self._reading_ahead is not None and self._reading_ahead.done():
            error = self._reading_ahead.exception()
            self._reading_ahead = None
        if isinstance(error, EngineError):
            raise error
        if error is not None:
            raise EngineError(f"the reply could not be made: {error}") from error

    def stop(self) -> None:
        """Abandon work in progress, for good; safe from any thread."""
        self._stopped.set()
        reply = self._reply
        if reply is not None:
            reply.cancel()

    @property
    def _room(self) -> int:
        return self._options.context_tokens - self._options.reply_tokens

    def _read_prompt(self) -> int:
        tokens = self._models.llm.prefill(self.dialogue.messages(), self._slot, afresh=True)
        room = self._room - _NEXT_UTTERANCE_TOKENS
        if tokens > room:
            raise ContextFull(f"the system prompt has {tokens} tokens; {room} is the most that fit")
        return tokens

    def _begin(self, rest: Rest | None = None, expected: str = "") -> None:
        self.dialogue.trim(self._room - (turn_tokens(expected) if expected else 0.0))
        prefix = "".join(f" {word.text}" for word in rest.words) if rest else ""
        generate = functools.partial(
            self._models.llm.stream,
            self.dialogue.messages(prefix, expected),
            self._slot,
            Sampling.of(self._config),
            self._options.reply_tokens,
        )
        speaker = self._models.speaker if self._config.generate_audio else None
        self._reply = Reply(generate, speaker, self.costs, self._options.reply_words, rest)
        self._reply.start(self._pool)
        if self._stopped.is_set():
            self._reply.cancel()

    def _drop_if_wordless(self, reply: Reply) -> None:
        if reply.queue.exhausted:
            self._reply = None
            self.dialogue.excuse()

    def _end_turn(self) -> None:
        self.dialogue.end_turn()
        self._reply = None
        self._turn_ended = True

    def _read(self, messages: Sequence[Message]) -> None:
        self.context_tokens = self._models.llm.prefill(messages, self._slot)
