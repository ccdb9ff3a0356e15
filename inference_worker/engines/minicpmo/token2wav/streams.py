"""Streams of Token2wav: which chunks share a batch, and how a failed one is isolated.

One thread serves everything queued at that moment and never waits to fill a batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.token2wav.flow import Flow, FlowResult, FlowState
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder_families import VocoderFamily
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import Samples

Request = TypeVar("Request")
Reply = TypeVar("Reply")

Pending = tuple[Request, "Future[Reply]"]


class MicroBatcher(Generic[Request, Reply]):
    """`serve` gets a list of requests and returns a result or an exception for each.

    One thread runs it: cuDNN builds its plans again in every new thread.
    """

    def __init__(self, serve: Callable[[list[Request]], Sequence[Reply | BaseException]]) -> None:
        self._serve = serve
        self._inbox: queue.SimpleQueue[list[Pending[Request, Reply]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="token2wav", daemon=True)
        self._thread.start()

    def run(self, asked: Request) -> Reply:
        """The result of `asked`; raises its exception."""
        [answer] = self.run_batch([asked])
        return answer

    def run_batch(self, asked: Sequence[Request]) -> list[Reply]:
        """The results of one batch. Raises the first exception in it."""
        seats: list[Pending[Request, Reply]] = [(each, Future()) for each in asked]
        self._inbox.put(seats)
        return [answer.result() for _, answer in seats]

    def close(self) -> None:
        """Serve the queued requests and end the thread. No call may follow."""
        self._inbox.put([])
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._answer(batch)

    def _next_batch(self) -> list[Pending[Request, Reply]]:
        """At least one request, in order of arrival; empty at the end."""
        batch = self._inbox.get()
        while batch and not self._inbox.empty():
            more = self._inbox.get()
            if not more:
                self._inbox.put(more)  # read again after this batch
                break
            batch = batch + more
        return batch

    def _answer(self, batch: list[Pending[Request, Reply]]) -> None:
        answers = self._answers([asked for asked, _ in batch])
        for (_, seat), answer in zip(batch, answers, strict=True):
            if isinstance(answer, BaseException):
                seat.set_exception(answer)
            else:
                seat.set_result(answer)

    def _answers(self, asked: list[Request]) -> list[Reply | BaseException]:
        """One result for each request; if `serve` fails, its exception for each."""
        try:
            answers = [*self._serve(asked)]
        except BaseException as error:  # noqa: BLE001
            return [error] * len(asked)
        if len(answers) == len(asked):
            return answers
        text = f"{len(answers)} answers to {len(asked)} questions"
        return [RuntimeError(text) for _ in asked]


log = structlog.get_logger()

Synthesis = Samples | Exception
Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class VoiceStream:
    """The state of a turn. It advances when the audio of a chunk exists."""

    flow: FlowState
    vocoder_state: Any

    def copy(self) -> VoiceStream:
        """An independent copy; states are replaced, never changed in place."""
        return VoiceStream(self.flow, self.vocoder_state)


@dataclass(frozen=True, slots=True, eq=False)
class CodeChunk:
    """The next codes of a stream, with lookahead unless they end the turn."""

    stream: VoiceStream
    codes: list[int]
    ends: bool


class StreamBatcher:
    """Runs the flow for chunks of equal length in one batch, then the vocoder for streams of equal progress."""

    def __init__(self, flow: Flow, family: VocoderFamily) -> None:
        self._flow = flow
        self._family = family

    def open(self, prompt: Sequence[Tensor]) -> VoiceStream:
        """A voice from the package's prompt: codes, their number, the speaker, mel, its length."""
        codes, _, speaker, mel, _ = prompt
        codes = self._family.prompt_codes(codes, self._flow.lookahead)
        return VoiceStream(self._flow.start(codes, speaker, mel), self._family.initial_state())

    def run(self, chunks: Sequence[CodeChunk]) -> list[Synthesis]:
        """The audio of each chunk at 24 kHz, or its exception. A failed chunk does not advance its stream."""
        results: dict[CodeChunk, Synthesis] = {}
        for group in _grouped(chunks, lambda chunk: (len(chunk.codes), chunk.ends)):
            results |= zip(group, self._run_group(group), strict=True)
        return [results[chunk] for chunk in chunks]

    def _run_group(self, chunks: list[CodeChunk]) -> list[Synthesis]:
        """The audio of chunks of one length. If the batch fails, each chunk is tried alone."""
        failure = None
        try:
            result = self._flow.advance(
                [chunk.codes for chunk in chunks],
                [chunk.stream.flow for chunk in chunks],
                ends=chunks[0].ends,
            )
            synthesized = self._synthesize(result.mel, chunks)
        except Exception as error:  # noqa: BLE001  # becomes the result of each stream
            # The traceback would keep the tensors of the batch.
            failure = error.with_traceback(None)
        if failure is not None and len(chunks) == 1:
            return [failure]
        if failure is not None:
            log.warning("vocoder_batch_failed", streams=len(chunks), error=str(failure))
            return [self._run_group([chunk])[0] for chunk in chunks]
        return [
            self._advanced(chunk.stream, result, row, *sound)
            for row, (chunk, sound) in enumerate(zip(chunks, synthesized, strict=True))
        ]

    def _synthesize(self, mel: Tensor, chunks: Sequence[CodeChunk]) -> list[tuple[Samples, Any]]:
        """The samples of each chunk, and the vocoder state of its stream after them."""
        groups = _grouped(
            range(len(chunks)), lambda row: self._family.batch_key(chunks[row].stream.vocoder_state)
        )
        outputs = [
            self._family.synthesize(
                torch.stack([mel[row] for row in group]),
                [chunks[row].stream.vocoder_state for row in group],
                ends=chunks[0].ends,
            )
            for group in groups
        ]
        results: dict[int, tuple[Samples, Any]] = {}
        for group, (samples, states) in zip(groups, outputs, strict=True):
            # The only point where the host waits for the device.
            results |= zip(group, zip(samples.cpu().numpy(), states, strict=True), strict=True)
        return [results[row] for row in range(len(chunks))]

    def _advanced(
        self, stream: VoiceStream, result: FlowResult, row: int, samples: Samples, state: Any
    ) -> Synthesis:
        if not np.isfinite(samples).all():
            return EngineError("the vocoder's sound is not finite: try another reference voice")
        try:
            stream.flow = self._flow.next_state(stream.flow, result, row)
        except Exception as error:  # noqa: BLE001  # the other streams advance
            return error.with_traceback(None)
        stream.vocoder_state = state
        return np.clip(samples, -1.0, 1.0)


def _grouped(items: Iterable[Item], kind: Callable[[Item], Hashable]) -> list[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(kind(item), []).append(item)
    return list(groups.values())
