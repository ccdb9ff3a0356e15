"""One chat request of the local engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from antiphon.inference_worker.engines.common.video import VideoBudget
from antiphon.inference_worker.engines.local.answer import Answer
from antiphon.inference_worker.engines.local.asr import Recogniser
from antiphon.inference_worker.engines.local.content import read_history, sounds_in
from antiphon.inference_worker.engines.local.dialogue import Message as Said
from antiphon.inference_worker.engines.local.llm import Sampling
from antiphon.inference_worker.engines.local.models import Models
from antiphon.inference_worker.engines.local.transcript import transcribe
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    ProgressCallback,
    UnsupportedContent,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import ConversationMessage


class _Hearing:
    """Writes the `count` sounds of a request down, one after the other, and tells how far it is."""

    def __init__(
        self,
        recogniser: Recogniser,
        count: int,
        on_progress: ProgressCallback,
        unwanted: threading.Event,
    ) -> None:
        self._recogniser = recogniser
        self._count = count
        self._on_progress = on_progress
        self._unwanted = unwanted
        self._heard = 0

    def __call__(self, speech: Samples) -> str:
        """The text of the next one."""

        def report(done: float) -> None:
            self._on_progress((self._heard + done) / self._count)

        text = transcribe(self._recogniser, speech, self._unwanted.is_set, report)
        self._heard += 1
        return text


class LocalChatView(ChatView):
    """A request on slot `slot`; `release` is called once, when it is cleaned up.

    The reference voice, slices and the TTS template mean nothing to this engine and are ignored.
    """

    def __init__(self, models: Models, slot: int, release: Callable[[], None]) -> None:
        self._models: Models | None = models
        self._slot = slot
        self._release = release
        self._options = ChatOptions()
        self._history: list[Said] = []
        self._answer: Answer | None = None
        self._stopped = threading.Event()

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,  # noqa: ARG002  # eSpeak clones no voices
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Write speech down, which takes the time, and read everything.

        Raises UnsupportedContent for what would have to be seen and for thinking aloud,
        ContextFull where the history does not fit.
        """
        if options.enable_thinking:
            text = "the local engine's model cannot think before it answers"
            raise UnsupportedContent(text, "enable_thinking")
        models = self._live_models()
        self._options = options
        hearing = _Hearing(models.recogniser, sounds_in(messages), on_progress, self._stopped)
        films = VideoBudget(cancelled=self._stopped.is_set)
        self._history = read_history(messages, hearing, omni_mode=options.omni_mode, videos=films)
        if self._stopped.is_set():
            return 0
        return models.llm.prefill(self._history, self._slot, afresh=True)

    def generate(self) -> Iterator[Delta]:
        """The answer: token by token in writing, clause by clause where it is spoken."""
        return self._say(self._history)

    def resume(self, said: str) -> Iterator[Delta]:
        """The rest of the answer that begins with `said`."""
        return self._say([*self._history, {"role": "assistant", "content": said}])

    def stop(self) -> None:
        """Abandon work in progress."""
        self._stopped.set()
        if (answer := self._answer) is not None:
            answer.end()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        if self._models is not None:
            self._models = None
            self._release()

    def _say(self, history: list[Said]) -> Iterator[Delta]:
        if self._stopped.is_set():
            return
        models, generation = self._live_models(), self._options.generation
        text = models.llm.stream(
            history, self._slot, Sampling.of(generation), generation.max_new_tokens
        )
        speaker = models.speaker if self._options.tts.enabled else None
        self._answer = answer = Answer(text, speaker)
        if self._stopped.is_set():
            answer.end()
        yield from answer

    def _live_models(self) -> Models:
        if self._models is None:
            raise EngineError("the session has been cleaned up")
        return self._models
