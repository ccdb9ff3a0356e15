"""The audio encoder over its slotted cache: one chunk of sound from several sessions at once."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.forward import Placed, SlottedBody
from antiphon.inference_worker.engines.minicpmo.model.audio import trim
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.placing import carried
from antiphon.inference_worker.engines.minicpmo.steps import Hear


class Listener:
    """Each chunk sees itself and all its session heard before."""

    def __init__(self, network: MiniCPMO, encoder: SlottedBody) -> None:
        self._network = network
        self._encoder = encoder

    def hear(self, chunks: Sequence[Hear]) -> list[Tensor]:
        """Embeddings (10, width) of chunks of one size, one for each slot."""
        placed = [Placed(chunk.slot, chunk.start, self._convolve(chunk)) for chunk in chunks]
        embeds = self._network.audio_projection_layer(self._encoder.rows(placed))
        return [embeds[chunk.slot] for chunk in chunks]

    def _convolve(self, chunk: Hear) -> Tensor:
        """Alone for each chunk: what surrounds a chunk is silence, not its neighbour."""
        network = self._network
        mel = carried(chunk.mel[None].to(network.dtype), network.device)
        steps = network.apm.convolve(mel)
        leading, trailing = chunk.leading_frames, chunk.trailing_frames
        return trim(steps, leading_frames=leading, trailing_frames=trailing)[0]
