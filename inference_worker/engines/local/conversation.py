"""Decides when a full-duplex session makes, speaks, interrupts or retracts a reply."""

import functools
import re
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from antiphon.inference_worker.engines.common.barge_in import is_question
from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.dialogue import Dialogue, LlmMessage, turn_tokens
from antiphon.inference_worker.engines.local.guard.answer_guard import mourns
from antiphon.inference_worker.engines.local.hearing.completeness import patience
from antiphon.inference_worker.engines.local.models import (
    NEXT_UTTERANCE_TOKENS,
    LocalModels,
    LocalSlot,
)
from antiphon.inference_worker.engines.local.pictures import NewestFrame
from antiphon.inference_worker.engines.local.reply import Reply, UnfinishedReply
from antiphon.inference_worker.engines.local.rules.chinese import asks_for_time
from antiphon.inference_worker.engines.local.rules.follow_up import rest_to_continue
from antiphon.inference_worker.engines.local.rules.situation import CAMERA_OFF, STILL_LOOKING
from antiphon.inference_worker.engines.local.rules.text import plain
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.sight.watch import Watch
from antiphon.inference_worker.engines.local.speech import UnitSpeech, Word
from antiphon.inference_worker.engines.types import EngineError, InputRefused
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import TextKind

_KNOWN = "You know this:"
_INSTRUCTIONS_SHARE = 0.5
"""Of the context, for the system prompt and what is added to it: the rest is for the conversation."""
_MOST_TO_SAY = 8000
"""Characters of commentary that wait to be spoken, minutes of it: each result of a unit repeats them."""


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
        language = slot.options.language
        self.dialogue = Dialogue(self._knowledge.prompt(system_prompt), language)
        self.costs = StageCosts()
        selective = slot.options.rules_apply and language == "en"
        self._view = _view(models, selective=selective)
        self._slot = slot
        self._config = config
        self._reply: Reply | None = None
        self._greeting: Reply | None = None
        self._to_say: deque[str] = deque()
        self._commentary: Reply | None = None
        """The reply that says the first of them."""
        self._expected = ""
        self._doubtful = False
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

    def see(self, frames: tuple[bytes, ...], seconds: float) -> None:
        """The frames of the next unit, which has this length."""
        if self._view is not None:
            self._view.take(frames, seconds)

    def greet(self, words: tuple[Word, ...]) -> None:
        """Speak `words` as the first turn."""
        if words:
            self._begin(UnfinishedReply(words, more=False))
            self._greeting = self._reply

    def add_text(self, kind: TextKind, text: str) -> None:
        """Raises InputRefused if the model has no room for it."""
        match kind:
            case TextKind.COMMENTARY:
                if sum(map(len, (*self._to_say, text))) > _MOST_TO_SAY:
                    raise InputRefused(
                        f"commentary of more than {_MOST_TO_SAY} characters waits to be spoken; send more later"
                    )
                self._to_say.append(text)
            case TextKind.USER:
                self.dialogue.add_user_text(text)
                self.dialogue.leave_unanswered()
            case TextKind.ASSISTANT:
                self.dialogue.add_assistant_text(text)
                self.dialogue.end_turn()
            case TextKind.INSTRUCTIONS:
                self._add_instruction(text)
            case TextKind.THINKING:
                self._add_instruction(f"{_KNOWN} {text}")

    @property
    def to_say(self) -> list[str]:
        """Texts that wait for silence."""
        return list(self._to_say)

    def _add_instruction(self, text: str) -> None:
        room = (self._prompt_limit - NEXT_UTTERANCE_TOKENS) * _INSTRUCTIONS_SHARE
        if self.dialogue.system_tokens + turn_tokens(text) > room:
            raise InputRefused(
                "the instructions and thoughts of this session have no room for more"
            )
        self.retract()
        self.dialogue.add_instruction(text)
        self._turn_ended = True  # so that the model reads it in advance

    def prepare_reply(self, text: str, *, doubtful: bool) -> None:
        """The user has probably said `text`: prepare the reply. `user_said` with this text keeps it.

        `doubtful`: the words are so improbable that they were probably not said.
        """
        if text != self._expected:
            self.retract()
            self._begin(expected=text, doubtful=doubtful and self._may_doubt)
            self._expected = text

    def user_said(self, text: str, *, doubtful: bool = False) -> None:
        """The user said `text`: retract a reply that was prepared for another text."""
        if text != self._expected:
            self.retract()
        self._expected, self._doubtful = "", doubtful and self._may_doubt
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
            self._begin(doubtful=self._doubtful)
        elif self._reply is None and self._to_say:
            self._begin(UnfinishedReply(self._words_of(self._to_say[0]), more=False))
            self._commentary = self._reply

    def check_in(self, text: str) -> None:
        """Say `text`, which is English, unless something is being said or answered."""
        if self._reply is None and not self.dialogue.unanswered:
            sentence = said_in(self._slot.options.language, text)
            self._begin(UnfinishedReply(self._words_of(sentence), more=False))

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
            left = self._reply.unfinished().words
            self.dialogue.interrupt_turn(" ".join(word.text for word in left))
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
        if not reply.begun and not reply.queue.may_begin(samples):
            return None
        speech = reply.queue.take(samples, tokens)
        if not reply.begun and not speech.text:
            if reply.queue.exhausted:
                self._drop_reply()
            return None
        if reply is self._commentary and not reply.begun:
            self._to_say.popleft()
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

    @property
    def has_asked(self) -> bool:
        """Whether the last answer, as far as it was said, ends with a question."""
        return is_question(self.dialogue.last_answer)

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
            self._drop_reply()
            self.dialogue.end_turn()
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

    @property
    def _may_doubt(self) -> bool:
        """Not if the current turn has words that are certain."""
        return self._doubtful or not self.dialogue.unanswered

    def _begin(
        self,
        rest: UnfinishedReply | None = None,
        expected: str = "",
        *,
        begun: bool = False,
        doubtful: bool = False,
    ) -> None:
        self._make_room(expected)
        prefix = "".join(word.continuing for word in rest.words) if rest else ""
        options = self._slot.options
        messages = self.dialogue.messages(prefix, expected)
        if rest is None and (text := self._answer_by_rule(messages, doubtful=doubtful)):
            rest = UnfinishedReply(self._words_of(text), more=False)
        generate = functools.partial(
            self._slot.stream,
            messages if self._view is None else self._view.add_to(messages),
            self._config,
            options.reply_tokens,
            self._knowledge.now,
            spoken=self._config.generate_audio,
        )
        config = self._config
        speaker = None
        if config.generate_audio:
            manner = self._knowledge.manner(messages)
            speaker = self._slot.models.voices.speaker(config.voice, manner)
        is_own = options.knows_little and rest is None
        ends_empty = is_own and not mourns(messages[-1]["content"])
        guard = self._slot.answer_guard(
            ends_empty=ends_empty, repeats=options.repeats, messages=messages
        )
        words, language = options.reply_words, options.language
        self._reply = Reply(
            generate, speaker, self.costs, words, rest, guard, begun=begun, language=language
        )
        self._reply.start(self._slot.pool)
        if self._stopped.is_set():
            self._reply.cancel()

    def _answer_by_rule(
        self, messages: Sequence[LlmMessage], *, doubtful: bool = False
    ) -> str | None:
        if rest := rest_to_continue(messages, self.dialogue.rest_of_cut_answer):
            return rest
        view = self._view
        if not isinstance(view, Watch):
            return self._knowledge.answer(messages, doubtful=doubtful)
        blind = STILL_LOOKING if view.is_behind else None
        return self._knowledge.answer(messages, view.scene, view.news, blind, doubtful=doubtful)

    def _make_room(self, expected: str) -> None:
        self.dialogue.trim(self._prompt_limit - (turn_tokens(expected) if expected else 0.0))

    def _words_of(self, text: str) -> tuple[Word, ...]:
        return words_of(text, self._slot.options.language)

    def _drop_reply(self) -> None:
        """End a reply that has no words or has failed. What it answers or says is not tried again."""
        reply, self._reply = self._reply, None
        if reply is not None and reply is self._commentary and not reply.begun:
            self._to_say.popleft()
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


STILL_THERE = ("Are you still there?", "I am still here, if you need anything.")
"""After so many, the session waits for the user."""

_HOLD_ON = re.compile(
    r"\b(?:hold on|hang on|wait|(?:a|1) (?:moment|second|minute|sec)"
    r"|be (?:right )?back|let me (?:think|check|look|see)|give me (?:a|1|some)|i (?:need|have) to think)\b"
)


class CheckIn:
    """When a session that is silent asks whether the user is still there: counts the silence of both sides."""

    def __init__(self, after_s: float) -> None:
        """`after_s` of silence, 0 for never."""
        self._after_s = after_s
        self._silent_s = 0.0
        self._asked = 0
        self._waits = True
        """No one has spoken yet, or the user has asked for time."""

    def user_said(self, text: str) -> None:
        self._silent_s, self._asked = 0.0, 0
        self._waits = bool(_HOLD_ON.search(plain(text))) or asks_for_time(text)

    def passed(self, seconds: float, *, silent: bool) -> str:
        """What to ask, in English, after a unit of this length; empty for nothing.

        `silent`: no one speaks in it.
        """
        self._silent_s = self._silent_s + seconds if silent else 0.0
        is_due = self._after_s and self._silent_s >= self._after_s
        if not is_due or self._waits or self._asked == len(STILL_THERE):
            return ""
        self._asked, self._silent_s = self._asked + 1, 0.0
        return STILL_THERE[self._asked - 1]
