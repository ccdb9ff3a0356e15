"""The vocoder interface of a session, how codes are cut into chunks, and which chunks run as CUDA graphs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import voice_folder
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples

log = structlog.get_logger()

CHUNK_CODES = 25
SILENT_PREFIX = (4218, 4218, 4218)
MIN_NEW_CODES = 5


@dataclass(slots=True)
class VoiceState:
    """The voice of a session: the state at the start of a turn, and the state of the current turn.

    `whole_chunks`: only the last chunk of a turn may be short, and no audio is padded to a second.
    """

    base: Any
    stream: Any = None
    waiting: list[int] = field(default_factory=list)
    whole_chunks: bool = False


class Vocoder(Protocol):
    """Makes 24 kHz sound out of audio codes."""

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio."""

    def synthesize(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Audio of the next codes of a turn. `last` flushes what is held back and ends the turn."""

    def reset(self, voice: VoiceState) -> None:
        """Begin a new turn."""

    def close(self) -> None:
        """Release the vocoder. No call may follow."""


class ChunkGraphs(GraphPool):
    """Graphs of the stages of a chunk (encoder, solver step, audio) for batches of `sizes` streams, ascending;
    empty for none. `past` is the largest number of frames before a chunk.

    A batch of chunks of 25 codes is padded with silent streams to the next of `sizes`, and the past of
    each stream to `past`. Every other batch runs without graphs. `buffers` are memory that graphs share
    beside their inputs.
    """

    def __init__(self, device: torch.device, *, past: int, sizes: tuple[int, ...]) -> None:
        super().__init__(device, enabled=bool(sizes))
        self.past = past
        self.sizes = sizes
        self.buffers: dict[str, Tensor] = {}
        self._known_reasons = set[str]()

    def rows(self, streams: int, new_codes: int, past: int) -> int | None:
        """The streams of the graph in which a batch runs; None if there is none.

        `past` is the largest number of frames before this chunk.
        """
        if not self.sizes:
            return None
        if past > self.past:
            self._report(f"a stream retains {past} frames, and graphs have {self.past}")
        elif streams > self.sizes[-1]:
            self._report(f"the largest graph has {self.sizes[-1]} streams")
        elif new_codes != CHUNK_CODES:
            self._report(f"graphs have {CHUNK_CODES} codes")
        else:
            return self.size(streams)
        return None

    def size(self, streams: int) -> int | None:
        """The smallest captured number of streams that is not below `streams`; None if there is none."""
        return next((size for size in self.sizes if size >= streams), None)

    @contextmanager
    def capture_chunks(self) -> Iterator[None]:
        """Inside the context, each stage that has no graph is captured. If that fails, there are none."""
        with self.capturing(self._switch_off):
            yield
        if not self.sizes:
            self.buffers.clear()

    def _switch_off(self, reason: str) -> None:
        log.warning("vocoder_graphs_off", reason=reason, consequence="a chunk takes more launches")
        self.sizes = ()

    def _report(self, reason: str) -> None:
        """Log why a batch runs without graphs, once for each reason."""
        if reason not in self._known_reasons and not self.is_capturing:
            self._known_reasons.add(reason)
            log.info("vocoder_chunk_without_graph", reason=reason)


def cut_reference(reference: Samples, seconds: float) -> Samples:
    """The beginning of a reference voice, at most `seconds` long, cut between words.

    It ends in the middle of the quietest 50 ms of its last second, or of its second half.
    """
    most = round(seconds * INPUT_RATE)
    if len(reference) <= most:
        return reference
    earliest = max(most - INPUT_RATE, most // 2)
    power = np.square(reference[earliest:most], dtype=np.float64)
    sums = np.concatenate([[0.0], power.cumsum()])
    window = INPUT_RATE // 20
    # The last of equally quiet places, so that silence at the end is kept.
    quiet = (sums[window:] - sums[:-window]).round(12)[::-1]
    return reference[: most - window // 2 - int(quiet.argmin())]


def next_pieces(
    waiting: list[int], lookahead: int, *, last: bool, whole: bool = False
) -> list[tuple[list[int], bool]]:
    """Cut `waiting` (in place) into chunks for the vocoder: codes, and whether they end the turn.

    A chunk is 25 codes and the lookahead. A shorter one needs at least 5 new codes; with `whole`
    only the last one is shorter.
    """
    pieces: list[tuple[list[int], bool]] = []
    while len(waiting) >= lookahead + (CHUNK_CODES if whole else MIN_NEW_CODES):
        take = min(CHUNK_CODES + lookahead, len(waiting))
        pieces.append((waiting[:take], False))
        del waiting[: take - lookahead]
    if last and waiting:
        pieces.append((waiting.copy(), True))
        waiting.clear()
    return pieces


def whole_second(sound: list[Samples], *, last: bool) -> Samples:
    """The pieces concatenated, and padded on the left to a second, except at the end of a turn."""
    if not sound:
        return SILENCE
    whole = np.concatenate(sound)
    missing = 0 if last else max(0, OUTPUT_RATE - len(whole))
    return np.pad(whole, (missing, 0))


def find_token2wav(model: Path, options: EngineOptions) -> Path | None:
    """The folder of Token2wav; "auto" is the model's folder if that and a GPU exist."""
    folder = voice_folder(model, options)
    if folder is None or options.vocoder != "auto":
        return folder
    no_gpu = options.device == "cpu" or not torch.cuda.is_available()
    return None if no_gpu or not folder.is_dir() else folder
