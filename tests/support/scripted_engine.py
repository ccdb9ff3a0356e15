"""A scripted engine for tests: it records its calls and blocks where a test wants it to."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.processor import (
    AnsweringView,
    ChatView,
    DuplexView,
    HalfDuplexView,
    UnifiedProcessor,
)
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineInfo,
    LoadProgress,
    PastTurn,
    PastUnit,
    PrefillReport,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.entries import TextKind
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult

Step = Callable[[int], UnitResult]
"""Returns the text of a unit, given its number (from 1). May raise or block."""


def listens(unit: int) -> UnitResult:
    return UnitResult(is_listen=True, memo={"unit": unit})


def speaks(unit: int) -> UnitResult:
    """A speaking unit whose text is its number."""
    audio = np.full(2400, unit / 100, dtype=np.float32)
    return UnitResult(is_listen=False, text=f"unit {unit}", audio=audio, memo={"unit": unit})


class ScriptedView(DuplexView):
    """Records its calls; `replayed` has the arguments of `replay`. A prompt has a token per letter."""

    def __init__(self, step: Step) -> None:
        self.calls: list[str] = []
        self.replayed: list[PastUnit] = []
        self.inputs: list[Samples] = []
        self.slices: list[int] = []
        self.may_finalize = threading.Event()
        self.may_finalize.set()
        self._step = step
        self._unit = 0
        self._tokens = TokenCounter()

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        self.calls.append("prepare")
        self._tokens.add(input_text=len(system_prompt))
        return len(system_prompt)

    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        self._unit += 1
        self.inputs.append(audio)
        self.slices.append(max_slice_nums)
        self._tokens.add(input_audio=10)
        self.calls.append(f"prefill {self._unit}")
        return PrefillReport(cost_ms=1.0, vision_slices=len(frames))

    def generate(self, force_listen: bool = False) -> UnitResult:
        self.calls.append(f"generate {self._unit}" + (" forced" if force_listen else ""))
        self._tokens.add(output_text=1)
        return self._step(self._unit)

    def take_usage(self) -> TokenUsage:
        return self._tokens.take()

    def finalize(self) -> None:
        self.may_finalize.wait()
        self.calls.append(f"finalize {self._unit}")

    def replay(self, units: Sequence[PastUnit]) -> None:
        self.calls.append("replay")
        self.replayed.extend(units)
        self._tokens.add(input_audio=10 * len(units))
        self._unit = len(units)

    def played(self, played_ms: float) -> None:
        self.calls.append(f"played {played_ms:g}")

    def add_history(self, history: Sequence[tuple[TextKind, str]]) -> None:
        self.calls.append(f"history of {len(history)}")

    def add_text(self, kind: TextKind, text: str) -> None:
        self.calls.append(f"{kind}: {text}")

    def stop(self) -> None:
        self.calls.append("stop")

    def cleanup(self) -> None:
        self.calls.append("cleanup")

    @property
    def kv_cache_length(self) -> int:
        return self._unit


class ScriptedConversation:
    """The state that a scripted answer may use: its number (from 1), and the client's request.

    `said` is the text that another worker has already published; a break or a stop sets `silenced`.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.number = 0
        self.said = ""
        self.silenced = threading.Event()
        self.inputs: list[Samples] = []
        self.patience = 1.0
        self.paused: list[Samples] = []
        self.replayed: list[PastTurn] = []
        self.messages: list[ConversationMessage] = []
        self.offered: list[dict[str, Any]] = []
        self.tokens = TokenCounter()
        self.may_read = threading.Event()
        self.may_read.set()

    def note_break(self, call: str) -> None:
        self.calls.append(call)
        self.silenced.set()


Answer = Callable[[ScriptedConversation], Iterator[Delta]]
"""The pieces of an answer. May raise or block."""


def piece(text: str) -> Delta:
    return Delta(text=text, audio=np.full(240, 0.5, dtype=np.float32), n_tokens=1)


def two_pieces(conversation: ScriptedConversation) -> Iterator[Delta]:
    """Two pieces, without the part that is already published."""
    whole = ["answer", f" {conversation.number}"]
    yield from (piece(text) for text in whole if text not in conversation.said)


class HeldAnswer:
    """An answer that blocks after its first piece until the test or the client releases it."""

    def __init__(self, rest: str = "") -> None:
        self.inside = threading.Event()
        self.release = threading.Event()
        self._rest = rest

    def __call__(self, conversation: ScriptedConversation) -> Iterator[Delta]:
        if not conversation.said:
            yield piece("well")
        self.inside.set()
        while not (self.release.is_set() or conversation.silenced.is_set()):
            self.release.wait(0.005)
        if not conversation.silenced.is_set():
            yield piece(self._rest or f" {conversation.number}")


class _ScriptedAnsweringView(AnsweringView):
    """What both kinds of answering views have."""

    def __init__(self, answer: Answer, *, resumes: bool) -> None:
        self.conversation = ScriptedConversation()
        self._answer = answer
        self._resumes = resumes

    def take_usage(self) -> TokenUsage:
        return self.conversation.tokens.take()

    def stop(self) -> None:
        self.conversation.note_break("stop")

    def cleanup(self) -> None:
        self.conversation.calls.append("cleanup")


class ScriptedHalfDuplexView(_ScriptedAnsweringView, HalfDuplexView):
    """`patience` is what a test sets; the utterances that it was called with are in `paused`."""

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        self.conversation.calls.append("prepare")
        return len(system.text)

    def greet(self, said: str) -> Iterator[Delta]:
        self.conversation.calls.append("greet")
        self.conversation.said = said
        return self._answer(self.conversation)

    def patience(self, speech: Samples) -> float:
        self.conversation.paused.append(speech)
        return self.conversation.patience

    def prefill(self, utterance: Samples) -> None:
        self.conversation.number += 1
        self.conversation.silenced.clear()
        self.conversation.inputs.append(utterance)
        self.conversation.tokens.add(input_audio=10)
        self.conversation.calls.append(f"prefill {self.conversation.number}")

    def generate(self) -> Iterator[Delta]:
        self.conversation.calls.append(f"generate {self.conversation.number}")
        self.conversation.said = ""
        return self._answer(self.conversation)

    def resume(self, said: str) -> Iterator[Delta] | None:
        if not self._resumes:
            return None
        self.conversation.calls.append(f"resume {self.conversation.number}")
        self.conversation.said = said
        return self._answer(self.conversation)

    def interrupted(self, played_ms: float) -> None:
        self.conversation.calls.append(f"interrupted {played_ms:.0f}")

    def memo(self) -> dict[str, Any]:
        return {"turn": self.conversation.number}

    def rollback(self) -> None:
        self.conversation.calls.append(f"rollback {self.conversation.number}")

    def replay(self, turns: Sequence[PastTurn]) -> None:
        self.conversation.calls.append("replay")
        self.conversation.replayed.extend(turns)
        self.conversation.number = len(turns)

    def set_break(self) -> None:
        self.conversation.note_break("set_break")

    @property
    def kv_cache_length(self) -> int:
        return self.conversation.number * 10


class ScriptedChatView(_ScriptedAnsweringView, ChatView):
    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        self.conversation.number = 1
        self.conversation.messages = list(messages)
        self.conversation.offered = options.tools
        self.conversation.tokens.add(input_text=len(messages))
        self.conversation.calls.append("prefill")
        on_progress(0.5)
        self.conversation.may_read.wait()
        return sum(len(message.text) for message in messages)

    def generate(self) -> Iterator[Delta]:
        self.conversation.calls.append("generate")
        return self._answer(self.conversation)

    def resume(self, said: str) -> Iterator[Delta] | None:
        if not self._resumes:
            return None
        self.conversation.said = said
        return self._answer(self.conversation)


class ScriptedProcessor(UnifiedProcessor):
    """Creates scripted views and keeps them in `views` and `conversations` for the test."""

    def __init__(
        self,
        step: Step = listens,
        answer: Answer = two_pieces,
        *,
        resumes: bool = True,
        calls_tools: bool = False,
        greets: bool = False,
        takes_texts: bool = False,
    ) -> None:
        self.views: list[ScriptedView] = []
        self.conversations: list[ScriptedConversation] = []
        self._step = step
        self._answer = answer
        self._resumes = resumes
        self._calls_tools = calls_tools
        self._greets = greets
        self._takes_texts = takes_texts
        self.replayed_audio = 10_000

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="scripted",
            model="none",
            kinds=frozenset(SessionKind) - {SessionKind.OMNI_DUPLEX},
            device="cpu",
            context_tokens=8192,
            sees_frames=False,
            clones_voice=False,
            calls_tools=self._calls_tools,
            greets=self._greets,
            takes_texts=self._takes_texts,
            replayed_audio=self.replayed_audio,
        )

    def load(self, report: LoadProgress) -> None:
        report("nothing to load")

    def set_duplex_mode(self) -> DuplexView:
        view = ScriptedView(self._step)
        self.views.append(view)
        return view

    def set_half_duplex_mode(self) -> HalfDuplexView:
        view = ScriptedHalfDuplexView(self._answer, resumes=self._resumes)
        self.conversations.append(view.conversation)
        return view

    def set_chat_mode(self) -> ChatView:
        view = ScriptedChatView(self._answer, resumes=self._resumes)
        self.conversations.append(view.conversation)
        return view

    def release(self) -> None:
        """Let every step that waits for the test continue."""
        for conversation in self.conversations:
            conversation.may_read.set()
        for view in self.views:
            view.may_finalize.set()

    def close(self) -> None:
        """Has nothing to close."""
