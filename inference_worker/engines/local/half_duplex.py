"""One half-duplex session of the local engine: transcribes an utterance and answers it."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.common.barge_in import Words
from antiphon.inference_worker.engines.common.pictures import picture_part
from antiphon.inference_worker.engines.local.answer import (
    FixedText,
    LocalAnswer,
    LocalAnsweringView,
)
from antiphon.inference_worker.engines.local.dialogue import Dialogue, LlmMessage
from antiphon.inference_worker.engines.local.hearing.completeness import NORMAL, patience
from antiphon.inference_worker.engines.local.hearing.interim import InterimText
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.transcription import transcribe
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.pictures import (
    Pictures,
    text_part,
)
from antiphon.inference_worker.engines.local.remote.generation import estimated_tokens
from antiphon.inference_worker.engines.local.rules.follow_up import rest_to_continue
from antiphon.inference_worker.engines.local.rules.situation import CAMERA_OFF
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.sight.scene import Scene
from antiphon.inference_worker.engines.local.speech import TimedWord
from antiphon.inference_worker.engines.processor import HalfDuplexView
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    PastTurn,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import SILENCE, Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, ImagePart, TextPart

_REPLY_SHARE = 4
"""At most 1 / _REPLY_SHARE of the context is reserved for an answer, even for large limits."""


_LATER = 1.5
"""As completeness.LATER, which is for a shorter silence."""

_INTERIM_PATIENCE_S = 0.1
"""How long a chunk waits for the words of a user who still speaks. The next chunk has them otherwise."""


class LocalHalfDuplexView(LocalAnsweringView, HalfDuplexView):
    """If the context overflows, the oldest turns are dropped.

    A turn's memo contains `user`, its transcript, `goodbye` if the answer to a goodbye is complete and the
    client asked for that, and `answer`, its whole text, if the user may interrupt what is played of it.
    """

    longest_patience = 2.0
    _longest_s = 60.0

    def __init__(self, slot: LocalSlot) -> None:
        super().__init__(slot)
        self._says_faults = True
        self._config = HalfDuplexConfig()
        self._dialogue: Dialogue | None = None
        self._scene: Scene | None = None
        self._pictures: list[dict[str, Any]] = []
        """Of the system message, for a model that sees."""
        self._before: Dialogue | None = None
        self._transcript = ""
        self._interim: InterimText | None = None
        self._recognised: tuple[Samples, Transcript] = (SILENCE, Transcript())
        self._doubtful = False
        self._said_goodbye = False
        self._answer_text = ""
        """Of this turn, as far as it was made."""
        self._context_tokens = 0

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        """Read the text of the system message; its audio is a reference voice.

        Without a named voice, the reference recording `ref_audio` selects the one nearest to it.
        A picture is shown to a model that sees, and described to another. Raises UnsupportedContent for one
        that the engine cannot see, and for a video; ContextFull for a long text.
        """
        models, pictures = self._slot.models, Pictures(self._slot.models.sight)
        texts, self._pictures = [system.text], []
        for index, part in enumerate(system.parts):
            where = f"system_content.{index}"
            if isinstance(part, ImagePart) and models.llm.sees:
                self._pictures.append(picture_part(part.data))
            elif isinstance(part, ImagePart):
                texts.append(pictures.describe(part.data, where))
            elif not isinstance(part, TextPart | AudioPart):
                raise UnsupportedContent("the local engine takes no videos here", where)
        tts = self._chosen_voice(config.tts, ref_audio)
        self._config, self._scene = config.model_copy(update={"tts": tts}), pictures.newest
        blind = models.without_picture(CAMERA_OFF)
        self._knowledge = SelfKnowledge(self._slot.options, system.text, config.time_zone, blind)
        prompt = self._knowledge.prompt(" ".join(filter(None, texts)))
        self._dialogue = Dialogue(prompt, self._slot.options.language)
        self._context_tokens = self._slot.read_prompt(
            self._shown(self._dialogue.messages()), self._prompt_limit
        )
        return self._context_tokens

    def greet(self, said: str) -> Iterator[Delta]:
        dialogue = self._prepared_dialogue()
        self._before, self._transcript, self._answer_text = copy.deepcopy(dialogue), "", ""
        dialogue.add_assistant_text(said)
        text = FixedText(self._config.greeting.strip()[len(said) :])
        yield from self._say(dialogue, self._speak(text, self._config.tts))
        self._context_tokens = self._slot.read(self._shown(dialogue.messages()))

    def words_so_far(self, begin: int, speech: Samples) -> str:
        if self._interim is None:
            self._interim = InterimText(self._slot.models.recogniser, self._slot.pool)
        return self._interim.read(begin, speech, _INTERIM_PATIENCE_S)

    def patience(self, speech: Samples) -> float:
        """By the completeness of what the recogniser hears."""
        text = self._transcribe(speech).text
        if not text:
            return NORMAL
        dialogue, slot = self._prepared_dialogue(), self._slot
        factor = patience(
            text,
            lambda said: slot.end_probability(self._shown(dialogue.messages(expected=said))),
            answered=self._knowledge.answer(dialogue.messages(expected=text)) is not None,
            later=_LATER,
        )
        return min(factor, self.longest_patience)

    def _transcribe(self, speech: Samples) -> Transcript:
        """What is said in `speech`. That of the same speech is known from `patience`."""
        if not np.array_equal(self._recognised[0], speech):
            recogniser = self._slot.models.recogniser
            self._recognised = (speech, transcribe(recogniser, speech, self._stopped.is_set))
        return self._recognised[1]

    def prefill(self, utterance: Samples) -> None:
        """Transcribe the utterance. One without words is ignored and gets no answer."""
        dialogue = self._prepared_dialogue()
        self._before, self._interim = copy.deepcopy(dialogue), None
        self._said_goodbye, self._answer_text = False, ""
        transcript = self._transcribe(utterance)
        self._transcript, self._doubtful = transcript.text, transcript.doubtful
        if self._transcript:
            dialogue.add_user_text(self._transcript)

    def generate(self) -> Iterator[Delta]:
        """Yields clauses, or words if the answer is not spoken."""
        return self._reply()

    def resume(self, said: str) -> Iterator[Delta]:
        return self._reply(said)

    def _reply(self, said: str = "") -> Iterator[Delta]:
        dialogue = self._prepared_dialogue()
        if not self._transcript or self._stopped.is_set():
            return
        dialogue.trim(self._dialogue_limit)
        config = self._config
        by_rule = rest_to_continue(
            dialogue.messages(), dialogue.rest_of_cut_answer
        ) or self._knowledge.answer(dialogue.messages(), self._scene, doubtful=self._doubtful)
        self._manner = self._knowledge.manner(dialogue.messages())
        dialogue.add_assistant_text(said)
        if by_rule:
            yield from self._say(dialogue, self._speak(FixedText(by_rule[len(said) :]), config.tts))
            return
        while True:
            messages = self._shown(dialogue.messages())
            answer = self._begin_answer(messages, config.generation, tts=config.tts)
            try:
                yield from self._say(dialogue, answer)
            except ContextFull:  # the model's server has less room than the options say
                if said or answer.pieces or not dialogue.shorten():
                    raise
            else:
                return

    def words_in(self, speech: Samples) -> Words:
        return self._slot.models.recogniser.words_in(speech)

    def interrupted(self, played_ms: float) -> None:
        self._said_goodbye = False
        self._prepared_dialogue().interrupt_answer(played_ms)

    def memo(self) -> dict[str, Any]:
        memo: dict[str, Any] = {"user": self._transcript} if self._transcript else {}
        if self._config.barge_in and self._answer_text:
            memo["answer"] = self._answer_text
        return memo | {"goodbye": True} if self._said_goodbye else memo

    def rollback(self) -> None:
        if self._before is not None:
            self._dialogue, self._before = self._before, None
            self._context_tokens = self._read(self._dialogue)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        """Restore the turns from their transcripts; transcribe the audio of those without one."""
        dialogue = self._prepared_dialogue()
        for turn in turns:
            text = str(turn.memo.get("user", ""))
            if not text and turn.text and turn.audio is not None:
                text = transcribe(self._slot.models.recogniser, turn.audio).text
            if text:
                dialogue.add_user_text(text)
            _restore_answer(turn, dialogue)
        dialogue.trim(self._dialogue_limit)
        if turns:
            self._context_tokens = self._read(dialogue)

    def set_break(self) -> None:
        self._end_answer()

    def cleanup(self) -> None:
        super().cleanup()
        self._dialogue = self._before = None

    @property
    def kv_cache_length(self) -> int:
        """Length of the context when the model last finished reading or writing."""
        return self._context_tokens

    @property
    def _prompt_limit(self) -> int:
        context = self._slot.context_tokens
        return context - min(self._config.generation.max_new_tokens, context // _REPLY_SHARE)

    @property
    def _dialogue_limit(self) -> int:
        """Tokens of the context for the text of the dialogue."""
        shown = estimated_tokens([{"role": "system", "content": self._pictures}])
        return self._prompt_limit - (shown if self._pictures else 0)

    def _shown(self, messages: Sequence[LlmMessage]) -> list[LlmMessage]:
        """`messages`, which begin with the system message, with its pictures."""
        system, *others = messages
        parts = [text_part(system["content"]), *self._pictures]
        return [{**system, "content": parts} if self._pictures else system, *others]

    def _say(self, dialogue: Dialogue, answer: LocalAnswer) -> Iterator[Delta]:
        """The pieces of a turn. What the client got of it is in the dialogue afterwards."""
        try:
            yield from answer
        finally:
            self._answer = None
            dialogue.add_spoken(answer.pieces, answer.sound_ms)
            dialogue.end_turn()
            if answer.pieces:
                self._answer_text = dialogue.last_answer
            self._context_tokens = answer.context_tokens or self._context_tokens
        if self._config.end_on_goodbye and not answer.ended:
            self._said_goodbye = self._knowledge.is_farewell(dialogue.last_answer)

    def _read(self, dialogue: Dialogue) -> int:
        return self._slot.read(self._shown(dialogue.messages()), reuse_cache=False)

    def _prepared_dialogue(self) -> Dialogue:
        if self._dialogue is None:
            raise EngineError("the session is not prepared")
        return self._dialogue


def _restore_answer(turn: PastTurn, dialogue: Dialogue) -> None:
    """The played part begins at 0 ms, and the rest, which was not played, at 1 ms."""
    whole = str(turn.memo.get("answer", ""))
    rest = whole[len(turn.text) :] if turn.cut and whole.startswith(turn.text) else ""
    pieces = [TimedWord(float(at), text) for at, text in enumerate((turn.text, rest)) if text]
    dialogue.add_spoken(pieces, 2.0)
    dialogue.end_turn()
    if turn.cut and pieces:
        dialogue.interrupt_answer(1.0)
