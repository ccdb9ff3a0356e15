"""Streams of Token2wav: which chunks share a batch, and how a failed one is isolated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.token2wav.flow import Flow, FlowResult, FlowState
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder_families import VocoderFamily
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.audio import Samples

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
