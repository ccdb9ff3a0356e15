"""A chat request, as a worker thread uses it."""

import json
import threading
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from antiphon.inference_worker.engines.common.tool_calls import read_tool_calls
from antiphon.inference_worker.engines.common.video import VideoBudget
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    AudioClip,
    PromptPart,
    ReadOptions,
    read_message,
)
from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import (
    EngineParts,
    SlotLease,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    MAX_FEED_TOKENS,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import WrittenAnswer
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import MAX_PICTURES, Steps
from antiphon.inference_worker.engines.minicpmo.views.answering import (
    AnswerQueue,
    MiniCPMOAnsweringView,
    search_sampling,
)
from antiphon.inference_worker.engines.processor import ChatView
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    ProgressCallback,
    UnsupportedContent,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig
from antiphon.shared_schemas.content import ConversationMessage, ToolCall

_SLICE_TOKENS = 66
"""Tokens per image slice, including its marks."""

T = TypeVar("T")


def _with_progress(work: Steps[T], expected: int, on_progress: ProgressCallback) -> Steps[T]:
    """The same work; each step is reported as a share of the second half of the progress."""
    answer: Any = None
    done = 0
    try:
        while True:
            answer = yield work.send(answer)
            done += 1
            on_progress((1 + min(1.0, done / expected)) / 2)
    except StopIteration as end:
        value: T = end.value
        return value


def _expected_steps(parts: Sequence[PromptPart]) -> int:
    """Approximate number of steps to read a prompt; images dominate it."""
    slices = sum(len(part.pixels) for part in parts if isinstance(part, SlicedImage))
    hearing = any(isinstance(part, AudioClip) for part in parts)
    return hearing + -(-slices // MAX_PICTURES) + 1 + slices * _SLICE_TOKENS // MAX_FEED_TOKENS


def _template_call(call: ToolCall) -> dict[str, Any]:
    """With the arguments as an object: a template writes them as it writes the tools."""
    function = {"name": call.name, "arguments": json.loads(call.arguments)}
    return {"type": "function", "function": function}


def _opens_speech(options: ChatOptions, content: Sequence[PromptPart]) -> bool:
    """Whether `<|tts_bos|>` opens the answer. The reference writes it in each streamed answer, and in
    each other one to audio; it has no tools, and does not think in streamed answers.
    """
    if options.tts.enabled or options.use_tts_template:
        return True
    if options.tools or options.enable_thinking:
        return False
    return options.streaming or any(isinstance(part, AudioClip) for part in content)


class MiniCPMOChatView(MiniCPMOAnsweringView, ChatView):
    """One chat request in its slot."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        super().__init__(parts, lease)
        self._options: ChatOptions | None = None
        self._stopped = threading.Event()

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Read the history; returns its length in tokens.

        Raises UnsupportedContent naming an image or a video that cannot be read.
        """
        if options.tools and options.tts.enabled:
            text = "the engine does not speak answers to requests with tools; set it to false"
            raise UnsupportedContent(f"tts.enabled: {text}", "tts.enabled")
        if options.tts.enabled:
            self._clone_voice(ref_audio)
        reading = ReadOptions(
            settings=self._parts.config.slice_config,
            max_slices=options.max_slice_nums,
            merge_audio=True,
            videos=VideoBudget(cancelled=self._stopped.is_set),
        )
        history = []
        for index, message in enumerate(messages):
            parts = read_message(message, reading, f"messages.{index}.content")
            history.append((str(message.role), parts))
            on_progress((index + 1) / len(messages) / 2)
        content = [part for _, parts in history for part in parts]
        prompt = self._session.chat(
            history,
            joint="" if options.omni_mode else "\n",
            thinking=options.enable_thinking,
            speak=_opens_speech(options, content),
            tools=options.tools,
            tool_calls={
                index: [_template_call(call) for call in message.tool_calls]
                for index, message in enumerate(messages)
            },
        )
        with self._counting_input(content):
            self._lease.run(_with_progress(prompt, _expected_steps(content), on_progress))
        self._options = options
        return self._session.length

    def resume(self, said: str) -> Generator[Delta, None, None]:
        pieces = super().resume(said)
        tools = self._options.tools if self._options else []
        names = {tool["function"]["name"] for tool in tools}
        return read_tool_calls(pieces, names) if names else pieces

    def _write(
        self, generation: GenerationConfig, output: AnswerQueue, said: list[int]
    ) -> Steps[WrittenAnswer]:
        if said or self._options is None or self._options.streaming:
            return (yield from super()._write(generation, output, said))
        answer = yield from self._session.search_answer(
            search_sampling(generation),
            generation.max_new_tokens,
            output.put_step,
            lambda: self._broken,
        )
        output.put_answer(answer)
        speech = self._speech(output)
        if speech is not None:
            yield from self._session.speak_answer(answer, speech)
        return answer

    def _generation(self) -> GenerationConfig:
        if self._options is None:
            raise EngineError("prefill must come before generate")
        return self._options.generation

    def stop(self) -> None:
        self._stopped.set()
        super().stop()
