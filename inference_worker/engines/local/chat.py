"""One chat request of the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from antiphon.inference_worker.engines.common.video import InvalidVideo, VideoBudget, read_track
from antiphon.inference_worker.engines.local.answer import FixedText, LocalAnsweringView
from antiphon.inference_worker.engines.local.dialogue import STYLE_HINT, LlmMessage
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.pictures import picture_part, text_part
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.transcription import transcribe
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    ProgressCallback,
    UnsupportedContent,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)

Transcriber = Callable[[Samples], str]

NO_WORDS = "I did not understand any words. Please say it again, or write it."
"""The answer to a last message without words: the model would invent a question and answer it."""

_NO_SYSTEM = f"You are a helpful assistant. {STYLE_HINT}"


class LocalChatView(LocalAnsweringView, ChatView):
    """The reference voice, slices and the TTS template are ignored: the engine has no use for them."""

    def __init__(self, slot: LocalSlot) -> None:
        super().__init__(slot)
        self._options = ChatOptions()
        self._history: list[LlmMessage] = []
        self._by_rule: str | None = None

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Transcribe the audio and read the history.

        Raises UnsupportedContent for images and for thinking, ContextFull for a long history.
        """
        if options.enable_thinking:
            text = "the local engine's model cannot think before it answers"
            raise UnsupportedContent(text, "enable_thinking")
        models, stopped = self._slot.models, self._stopped.is_set
        self._options = options
        total, done = _count_audio(messages), 0

        def transcribe_next(speech: Samples) -> str:
            nonlocal done
            text = transcribe(
                models.recogniser,
                speech,
                stopped,
                lambda share: on_progress((done + share) / total),
            )
            done += 1
            return text

        videos = VideoBudget(cancelled=stopped) if options.omni_mode else None
        self._history = read_history(messages, transcribe_next, videos, sees=models.llm.sees)
        if not options.tools:
            self._by_rule = self._answer_by_rule()
        if stopped():
            return 0
        return self._slot.read(self._history, reuse_cache=False, tools=options.tools)

    def _answer_by_rule(self) -> str | None:
        """Also tells the model its name, the date and its limits, in the first system message."""
        system = next(message for message in self._history if message["role"] == "system")
        prompt = str(system["content"])
        self._knowledge = SelfKnowledge(self._slot.options, prompt, self._options.time_zone)
        system["content"] = self._knowledge.prompt(prompt)
        self._manner = self._knowledge.manner(self._history)
        return self._knowledge.answer(self._history)

    def generate(self) -> Iterator[Delta]:
        return self._stream()

    def resume(self, said: str) -> Iterator[Delta] | None:
        """With tools, or on a server, the language model cannot continue a text."""
        if self._options.tools or not self._slot.models.llm.resumes_text:
            return None
        return self._stream(said)

    def _stream(self, said: str = "") -> Iterator[Delta]:
        if self._stopped.is_set():
            return
        options, history, last = self._options, self._history, self._history[-1]
        if (
            last["role"] == "user"
            and isinstance(last["content"], str)
            and not last["content"].strip()
        ):
            yield from self._speak(FixedText(NO_WORDS[len(said) :]), options.tts)
            return
        if self._by_rule is not None:
            yield from self._speak(FixedText(self._by_rule[len(said) :]), options.tts)
            return
        if said:
            history = [*history, {"role": "assistant", "content": said}]
        yield from self._begin_answer(
            history, options.generation, tts=options.tts, tools=options.tools
        )


def read_history(
    messages: Sequence[ConversationMessage],
    transcriber: Transcriber,
    videos: VideoBudget | None = None,
    *,
    sees: bool = False,
) -> list[LlmMessage]:
    """The messages for the model, with a default system message if there is none.

    They are text, and pictures if the model sees.

    `videos` limits the videos, of which only the audio is used; without it, videos are rejected.
    Audio in a system message is a reference voice and is left out. Raises UnsupportedContent with
    the part that is not supported.
    """
    history = [
        _message(index, message, transcriber, videos, sees=sees)
        for index, message in enumerate(messages)
    ]
    if all(message.role is not Role.SYSTEM for message in messages):
        history.insert(0, {"role": "system", "content": _NO_SYSTEM})
    return history


def _count_audio(messages: Sequence[ConversationMessage]) -> int:
    return sum(
        isinstance(part, AudioPart | VideoPart) and not _is_reference_voice(message, part)
        for message in messages
        for part in message.parts
    )


def _is_reference_voice(message: ConversationMessage, part: Part) -> bool:
    return message.role is Role.SYSTEM and isinstance(part, AudioPart)


def _message(
    index: int,
    message: ConversationMessage,
    transcriber: Transcriber,
    videos: VideoBudget | None,
    *,
    sees: bool,
) -> LlmMessage:
    parts = [
        picture_part(part.data)
        if sees and isinstance(part, ImagePart)
        else text_part(_text_of(part, f"messages.{index}.content.{place}", transcriber, videos))
        for place, part in enumerate(message.parts)
        if not _is_reference_voice(message, part)
    ]
    written: LlmMessage = {"role": str(message.role)}
    said = [part for part in parts if part.get("text") != ""]
    if any("text" not in part for part in said):
        written["content"] = said
    else:
        written["content"] = "\n".join(part["text"] for part in said)
    if message.tool_calls:
        written["tool_calls"] = [call.wire() for call in message.tool_calls]
    if message.tool_call_id:
        written["tool_call_id"] = message.tool_call_id
    return written


def _text_of(part: Part, field: str, transcriber: Transcriber, videos: VideoBudget | None) -> str:
    match part:
        case TextPart(text):
            return text
        case AudioPart():
            return transcriber(part.samples())
        case ImagePart():
            raise UnsupportedContent("the local engine does not see images", field)
        case VideoPart(data):
            return transcriber(_audio_of(data, field, videos))


def _audio_of(data: bytes, field: str, videos: VideoBudget | None) -> Samples:
    if videos is None:
        text = "the local engine does not see videos; with omni_mode it hears their sound"
        raise UnsupportedContent(text, field)
    try:
        audio = read_track(data, videos, with_frames=False).audio
    except InvalidVideo as error:
        raise UnsupportedContent(str(error), field) from error
    if not len(audio):
        text = "the local engine does not see, and this video has no sound"
        raise UnsupportedContent(text, field)
    return audio
