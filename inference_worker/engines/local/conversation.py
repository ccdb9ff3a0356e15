"""Decides when a full-duplex session makes, speaks, interrupts or retracts a reply."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.completeness import patience
from antiphon.inference_worker.engines.local.dialogue import Dialogue, LlmMessage, turn_tokens
from antiphon.inference_worker.engines.local.guard import AnswerGuard
from antiphon.inference_worker.engines.local.models import (
    NEXT_UTTERANCE_TOKENS,
    LocalModels,
    LocalSlot,
)
from antiphon.inference_worker.engines.local.pictures import NewestFrame
from antiphon.inference_worker.engines.local.reply import Reply, UnfinishedReply
from antiphon.inference_worker.engines.local.rules.situation import CAMERA_OFF, STILL_LOOKING
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.sight.watch import Watch
from antiphon.inference_worker.engines.local.speech import UnitSpeech, Word
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.config import DuplexConfig


class Conversation:
    """One session's dialogue and at most one reply.

    A reply that has begun can be interrupted. A reply that has not begun can be retracted; its
    question stays open. If an utterance has probably ended, its reply is prepared, but it is not
    spoken until the utterance has ended. Only `stop` may be called from other threads.
    """

    def __init__(self, slot: LocalSlot, config: DuplexConfig, system_prompt: str) -> None:
        models = slot.models
        blind = models.without_picture(CAMERA_OFF)
        self._knowledge = SelfKnowledge(slot.options, system_prompt, config.time_zone, blind)
        self.dialogue = Dialogue(self._knowledge.prompt(system_prompt))
        self.costs = StageCosts()
        self._view = _view(models, selective=slot.options.rules_apply)
        self._models = models
        self._slot = slot
        self._config = config
        self._reply: Reply | None = None
        self._greeting: Reply | None = None
        self._expected = ""
        self._reading_ahead: Future[None] | None = None
        self._turn_ended = False
        self._stopped = threading.Event()
        self.prompt_tokens = slot.read_prompt(self.dialogue.messages(), self._prompt_limit)
        self.context_tokens = self.prompt_tokens

    @property
    def speaking(self) -> bool:
        """True if a reply has begun and is not complete."""
        return self._reply is not None and self._reply.begun

    @property
    def greeting(self) -> bool:
        """True until the greeting is complete, interrupted or retracted."""
        return self._reply is not None and self._reply is self._greeting

    def see(self, frames: tuple[bytes, ...]) -> None:
        """The frames of the next unit."""
        if self._view is not None:
            self._view.take(frames)

    def greet(self, words: tuple[Word, ...]) -> None:
        """Speak `words` as the first turn."""
        if words:
            self._begin(UnfinishedReply(words, more=False))
            self._greeting = self._reply

    def prepare_reply(self, text: str) -> None:
        """The user has probably said `text`: prepare the reply. `user_said` with this text keeps it."""
        if text != self._expected:
            self.retract()
            self._begin(expected=text)
            self._expected = text

    def user_said(self, text: str) -> None:
        """The user said `text`: retract a reply that was prepared for another text."""
        if text != self._expected:
            self.retract()
        self._expected = ""
        self.dialogue.add_user_text(text)

    def patience(self, text: str) -> float:
        """By which factor to wait longer than usual after `text`, which the user has probably said."""
        if text != self._expected:
            self.retract()  # the model answers one request of a session at a time
        self._make_room(text)
        dialogue, slot = self.dialogue, self._slot
        return patience(
            text,
            lambda said: slot.end_probability(dialogue.messages(expected=said)),
            answered=self._answer_by_rule(dialogue.messages(expected=text)) is not None,
        )

    def begin_reply(self) -> None:
        """Make a reply if the user's last words need one."""
        if self._expected:
            self.retract()
        if self._reply is None and self.dialogue.unanswered:
            self._begin()

    def resume(self, rest: UnfinishedReply, *, greeting: bool) -> None:
        """Continue the reply that another worker began."""
        self._begin(rest, begun=True)
        self._greeting = self._reply if greeting else None

    def retract(self) -> None:
        """Drop a reply that has not begun; its question stays open."""
        self._expected = ""
        if self._reply is not None and not self._reply.begun:
            self._reply.cancel()
            self._reply = None

    def interrupt(self) -> None:
        """Drop the rest of a reply that has begun, or the greeting."""
        if self._reply is not None and (self._reply.begun or self.greeting):
            self._reply.cancel()
            self.dialogue.interrupt_turn()
            self._end_turn()

    def next_unit(self, samples: int, tokens: int, deadline: float) -> UnitSpeech | None:
        """The next `samples` of speech, or None if there is none before `deadline`.

        `tokens` limits the text; `deadline` is a value of time.perf_counter(). Raises EngineError
        if the reply failed.
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
        self.dialogue.add_spoken(speech.pieces, speech.sound_ms)
        self.context_tokens = reply.context_tokens or self.context_tokens
        if speech.last:
            self._end_turn()
        return speech

    @property
    def said_goodbye(self) -> bool:
        """Whether the last answer says goodbye."""
        return self._knowledge.is_farewell(self.dialogue.last_answer)

    def unfinished(self) -> UnfinishedReply | None:
        return self._reply.unfinished() if self._reply is not None and self._reply.begun else None

    def finish_unit(self) -> None:
        """If a turn has ended, let the model read it in advance."""
        if self._turn_ended:
            self._turn_ended = False
            self.read_ahead()

    def read_ahead(self) -> None:
        """Let the model read the dialogue in the background, unless a reply is in progress."""
        if self._stopped.is_set():
            return
        self.dialogue.trim(self._prompt_limit - NEXT_UTTERANCE_TOKENS)
        if self._reply is None:
            self._reading_ahead = self._slot.pool.submit(self._read, self.dialogue.messages())

    def raise_failure(self) -> None:
        """Raise an error of the background work once."""
        error = self._reply.failure if self._reply is not None and not self._expected else None
        if error is not None:
            self._reply = None
            self.dialogue.end_turn()
            self.dialogue.leave_unanswered()
        elif self._reading_ahead is not None and self._reading_ahead.done():
            error = self._reading_ahead.exception()
            self._reading_ahead = None
        if isinstance(error, EngineError):
            raise error
        if error is not None:
            raise EngineError(f"the reply could not be made: {error}") from error

    def stop(self) -> None:
        """Cancel the current reply and all later ones. Safe to call from any thread."""
        self._stopped.set()
        reply = self._reply
        if reply is not None:
            reply.cancel()

    @property
    def _prompt_limit(self) -> int:
        return self._slot.context_tokens - self._slot.options.reply_tokens

    def _begin(
        self, rest: UnfinishedReply | None = None, expected: str = "", *, begun: bool = False
    ) -> None:
        self._make_room(expected)
        prefix = "".join(f" {word.text}" for word in rest.words) if rest else ""
        options = self._slot.options
        messages = self.dialogue.messages(prefix, expected)
        if rest is None and (text := self._answer_by_rule(messages)):
            rest = UnfinishedReply(words_of(text), more=False)
        generate = functools.partial(
            self._slot.stream,
            messages if self._view is None else self._view.add_to(messages),
            self._config,
            options.reply_tokens,
            self._knowledge.now,
        )
        config = self._config
        speaker = None
        if config.generate_audio:
            manner = self._knowledge.manner(messages)
            speaker = self._models.voices.speaker(config.voice, manner)
        guard = AnswerGuard(filter_obscene=options.filter_obscene)
        words = options.reply_words
        self._reply = Reply(generate, speaker, self.costs, words, rest, guard, begun=begun)
        self._reply.start(self._slot.pool)
        if self._stopped.is_set():
            self._reply.cancel()

    def _answer_by_rule(self, messages: Sequence[LlmMessage]) -> str | None:
        view = self._view
        if not isinstance(view, Watch):
            return self._knowledge.answer(messages)
        blind = STILL_LOOKING if view.is_behind else None
        return self._knowledge.answer(messages, view.scene, view.news, blind)

    def _make_room(self, expected: str) -> None:
        self.dialogue.trim(self._prompt_limit - (turn_tokens(expected) if expected else 0.0))

    def _drop_if_wordless(self, reply: Reply) -> None:
        if reply.queue.exhausted:
            self._reply = None
            self.dialogue.leave_unanswered()

    def _end_turn(self) -> None:
        self.dialogue.end_turn()
        self._reply = None
        self._turn_ended = True

    def _read(self, messages: Sequence[LlmMessage]) -> None:
        self.context_tokens = self._slot.read(messages)


def _view(models: LocalModels, *, selective: bool) -> NewestFrame | Watch | None:
    """What a model gets of the camera: the frame if it takes pictures, otherwise a description."""
    if models.llm.sees:
        return NewestFrame()
    return Watch(models.sight, selective=selective) if models.sight is not None else None
