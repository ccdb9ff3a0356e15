"""One chat request of the local engine."""

import functools
from collections.abc import Callable, Iterator, Sequence

from antiphon.inference_worker.engines.common.pictures import picture_part
from antiphon.inference_worker.engines.common.video import (
    InvalidVideo,
    VideoBudget,
    VideoTrack,
    read_track,
)
from antiphon.inference_worker.engines.local.answer import (
    FixedText,
    LocalAnsweringView,
    spoken_clauses,
)
from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.dialogue import STYLE_HINT, LlmMessage
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.transcription import (
    transcribe,
    transcribed_segments,
)
from antiphon.inference_worker.engines.local.language_model import word_pieces
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.pictures import (
    MOST_PICTURES,
    Pictures,
    text_part,
)
from antiphon.inference_worker.engines.local.rules.sight import may_be_meant
from antiphon.inference_worker.engines.local.rules.situation import NO_PICTURE
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    ProgressCallback,
    UnsupportedContent,
    no_progress,
)
from antiphon.shared_schemas.audio import SILENCE, Samples
from antiphon.shared_schemas.config import ChatOptions, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)

Transcriber = Callable[[Samples], Transcript]

NO_WORDS = "I did not understand any words. Please say it again, or write it."
"""The answer to a last message without words: the model would invent a question and answer it."""

_WHAT_IS_SEEN = "What do you see?"
"""The question of a picture without words."""

SAYS_NOTHING = "(The user says nothing. Follow your instructions.)"
"""The question where there is none. Without one, a model continues its last answer."""

_SAYS_HELLO = "Hello."
"""The same for the bundled model, which answers `SAYS_NOTHING` with nonsense."""

NO_SYSTEM = f"You are a helpful assistant. {STYLE_HINT}"


class LocalChatView(LocalAnsweringView, ChatView):
    """Slices and the TTS template are ignored: the engine has no use for them."""

    def __init__(self, slot: LocalSlot) -> None:
        super().__init__(slot)
        self._options = ChatOptions()
        self._history: list[LlmMessage] = []
        self._by_rule: str | None = None

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Transcribe the audio and read the history.

        Without a named voice, the reference recording `ref_audio` selects the one nearest to it.
        Raises UnsupportedContent for thinking, and for what the engine does not see; ContextFull for a
        long history.
        """
        if options.enable_thinking:
            text = "the local engine's model cannot think before it answers"
            raise UnsupportedContent(text, "enable_thinking")
        models, stopped = self._slot.models, self._stopped.is_set
        tts = self._chosen_voice(options.tts, ref_audio)
        self._options = options.model_copy(update={"tts": tts})
        total, done = _count_audio(messages, videos=options.omni_mode), 0

        def transcribe_next(speech: Samples) -> Transcript:
            nonlocal done
            transcript = transcribe(
                models.recogniser,
                speech,
                stopped,
                lambda share: on_progress((done + share) / total),
            )
            done += 1
            return transcript

        reader = HistoryReader(
            transcribe_next,
            VideoBudget(cancelled=stopped),
            Pictures(models.sight),
            sees=models.llm.sees,
            hears_videos=options.omni_mode,
        )
        self._history = reader.read(messages, said_in(self._slot.options.language, NO_SYSTEM))
        self.transcript = reader.asked
        if not options.tools:
            self._by_rule = self._answer_by_rule(reader)
        self._history = self._with_question(self._history)
        if stopped():
            return 0
        return self._slot.read(self._history, reuse_cache=False, tools=options.tools)

    def _answer_by_rule(self, reader: "HistoryReader") -> str | None:
        """Also tells the model its name, the date and its limits, in the first system message."""
        system = next(message for message in self._history if message["role"] == "system")
        content = system["content"]
        parts = [] if isinstance(content, str) else content
        texts = [content] if isinstance(content, str) else [part.get("text") for part in parts]
        pictures = [part for part in parts if part["type"] != "text"]
        prompt = " ".join(filter(None, texts))
        blind = self._slot.models.without_picture(NO_PICTURE)
        knowledge = SelfKnowledge(self._slot.options, prompt, self._options.time_zone, blind)
        self._knowledge = knowledge
        extended = knowledge.prompt(prompt)
        system["content"] = [text_part(extended), *pictures] if pictures else extended
        said, scene = reader.own_words(self._history), reader.pictures.newest
        self._manner = knowledge.manner(said)
        if scene is not None and not may_be_meant(scene, reader.said_since_picture):
            return knowledge.answer(said, blind="", doubtful=reader.doubtful)
        return knowledge.answer(said, scene, reader.pictures.news, doubtful=reader.doubtful)

    def _with_question(self, history: Sequence[LlmMessage]) -> list[LlmMessage]:
        """`history` as models expect it: an answer is one message, and a question is the last.

        The bundled model greets better without a question.
        """
        options, asked = self._slot.options, joined_answers(history)
        silent = all(message["role"] != "user" for message in asked) and not options.bundled_model
        if silent or asked[-1]["role"] == "assistant":
            nothing = said_in(options.language, SAYS_NOTHING)
            content = _SAYS_HELLO if options.bundled_model else nothing
            asked.append({"role": "user", "content": content})
        return asked

    def generate(self) -> Iterator[Delta]:
        return self._stream()

    def resume(self, said: str) -> Iterator[Delta] | None:
        """With tools, or on a server, the language model cannot continue a text."""
        if self._options.tools or not self._slot.models.llm.resumes_text:
            return None
        return self._stream(said)

    def transcribe(self, speech: Samples) -> Iterator[Delta]:
        return transcribed_segments(self._slot.models.recogniser, speech, self._stopped.is_set)

    def read_aloud(self, text: str, tts: TtsConfig, said: str) -> Iterator[Delta]:
        speaker, language = self._slot.models.voices.speaker(tts.voice), self._slot.options.language
        rest = [(text[len(said) :], 0)]
        for deltas, _ in spoken_clauses(rest, speaker, language, self._stopped):
            yield from deltas

    def _stream(self, said: str = "") -> Iterator[Delta]:
        if self._stopped.is_set():
            return
        options, history, last = self._options, self._history, self._history[-1]
        if (
            last["role"] == "user"
            and isinstance(last["content"], str)
            and not last["content"].strip()
        ):
            yield from self._say(said_in(self._slot.options.language, NO_WORDS), said)
            return
        if self._by_rule is not None:
            yield from self._say(self._by_rule, said)
            return
        if said:
            history = [*history, {"role": "assistant", "content": said}]
        yield from self._begin_answer(
            history,
            options.generation,
            tts=options.tts,
            tools=options.tools,
            must_call=options.must_call,
        )

    def _say(self, text: str, said: str) -> Iterator[Delta]:
        """`text` behind `said`, with at most as many words as the client wants tokens."""
        options = self._options
        words = word_pieces(text)[: options.generation.max_new_tokens]
        yield from self._speak(FixedText("".join(words)[len(said) :]), options.tts)


def joined_answers(history: Sequence[LlmMessage]) -> list[LlmMessage]:
    """`history` with neighbouring answers in one message. Calls of tools stay as they are."""
    joined: list[LlmMessage] = []
    for message in history:
        if joined and all(map(_is_text_answer, (joined[-1], message))):
            texts = filter(None, (joined[-1]["content"], message["content"]))
            joined[-1] = {**message, "content": "\n".join(texts)}
        else:
            joined.append(message)
    return joined


def _is_text_answer(message: LlmMessage) -> bool:
    is_text = isinstance(message["content"], str)
    return message["role"] == "assistant" and is_text and "tool_calls" not in message


class HistoryReader:
    """Turns messages into those for the model: text, and pictures if the model sees.

    Of a video, within the limits of `videos`, some frames are described, and with `hears_videos` the sound
    is transcribed. Audio in a system message is a reference voice and is left out.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        videos: VideoBudget,
        pictures: Pictures,
        *,
        sees: bool,
        hears_videos: bool,
    ) -> None:
        self._transcriber = transcriber
        self._videos = videos
        self._sees = sees
        self._hears_videos = hears_videos
        self.pictures = pictures
        self._asked: list[str] = []
        self.said_since_picture: list[str] = []
        """What the user said with the last picture, and since then."""
        self.doubtful = False
        """The recogniser does not believe the words of the last message."""

    def read(
        self, messages: Sequence[ConversationMessage], no_system: str = NO_SYSTEM
    ) -> list[LlmMessage]:
        """With the system message `no_system` if there is none.

        Raises UnsupportedContent with the part that is not supported.
        """
        if self.pictures.sees:
            shown = [
                sum(isinstance(part, ImagePart | VideoPart) for part in message.parts)
                for message in messages
            ]
            if sum(shown[-1:]) > MOST_PICTURES:
                text = f"the local engine looks at {MOST_PICTURES} pictures of a message at most; send fewer"
                raise UnsupportedContent(text, f"messages.{len(messages) - 1}.content")
            self.pictures.leave_out(sum(shown) - MOST_PICTURES)
        history = [self._message(index, message) for index, message in enumerate(messages)]
        if all(message.role is not Role.SYSTEM for message in messages):
            history.insert(0, {"role": "system", "content": no_system})
        return history

    @property
    def asked(self) -> str:
        """The last message without the descriptions of pictures."""
        return self._asked[-1] if self._asked else ""

    def own_words(self, history: Sequence[LlmMessage]) -> list[LlmMessage]:
        """`history`, as `read` returned it, without descriptions: they are not the user's words.

        A last message with a picture, for a model that sees, stays as it is.
        """
        if not self._asked:
            return list(history)
        begin = len(history) - len(self._asked)
        *earlier, (last, asked) = zip(history[begin:], self._asked, strict=True)
        said = [
            {**message, "content": words}
            for message, words in earlier
            if words.strip() or message["role"] != "user"
        ]
        if isinstance(last["content"], str):
            only_shows = last["content"].strip() and not asked.strip()
            last = {**last, "content": _WHAT_IS_SEEN if only_shows else asked}
        return [*history[:begin], *said, last]

    def _message(self, index: int, message: ConversationMessage) -> LlmMessage:
        self.pictures.begin_message()
        self.doubtful = False
        parts, asked = [], []
        for place, part in enumerate(message.parts):
            if _is_reference_voice(message, part):
                continue
            field = f"messages.{index}.content.{place}"
            if self._sees and isinstance(part, ImagePart):
                parts.append(picture_part(part.data))
                continue
            said, seen = self._words_of(part, field)
            asked.append(said)
            parts += [text_part(text) for text in (seen, said) if text]
        self._asked.append(said := "\n".join(filter(None, asked)))
        if self.pictures.in_message:
            self.said_since_picture = [said]
        elif message.role is Role.USER:
            self.said_since_picture.append(said)
        written: LlmMessage = {"role": str(message.role)}
        if any("text" not in part for part in parts):
            written["content"] = parts
        else:
            written["content"] = "\n".join(part["text"] for part in parts)
        if message.tool_calls:
            written["tool_calls"] = [call.wire() for call in message.tool_calls]
        if message.tool_call_id:
            written["tool_call_id"] = message.tool_call_id
        return written

    def _words_of(self, part: Part, field: str) -> tuple[str, str]:
        """What was said in a part, and what it shows."""
        match part:
            case TextPart(text):
                return text, ""
            case AudioPart():
                return self._hear(part.samples()), ""
            case ImagePart(data):
                self._videos.check_cancelled()
                return "", self.pictures.describe(data, field)
            case VideoPart(data):
                return self._words_of_video(data, field)

    def _words_of_video(self, data: bytes, field: str) -> tuple[str, str]:
        sees = self.pictures.sees
        if not sees and not self._hears_videos:
            text = "the local engine does not see videos; with omni_mode it hears their sound"
            raise UnsupportedContent(text, field)

        @functools.cache
        def track() -> VideoTrack:
            return read_track(data, self._videos, with_frames=sees)

        try:
            seen = self.pictures.describe_video(data, lambda: track().seconds, self._videos)
            sound = track().audio if self._hears_videos else SILENCE
        except InvalidVideo as error:
            raise UnsupportedContent(str(error), field) from error
        if not sees and not len(sound):
            text = "the local engine does not see, and this video has no sound"
            raise UnsupportedContent(text, field)
        return self._hear(sound) if len(sound) else "", seen

    def _hear(self, speech: Samples) -> str:
        transcript = self._transcriber(speech)
        self.doubtful = self.doubtful or transcript.doubtful
        return transcript.text


def _count_audio(messages: Sequence[ConversationMessage], *, videos: bool) -> int:
    kinds = AudioPart | VideoPart if videos else AudioPart
    return sum(
        isinstance(part, kinds) and not _is_reference_voice(message, part)
        for message in messages
        for part in message.parts
    )


def _is_reference_voice(message: ConversationMessage, part: Part) -> bool:
    return message.role is Role.SYSTEM and isinstance(part, AudioPart)
