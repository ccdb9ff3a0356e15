"""The audio encoder over its slotted cache: one chunk of sound from several sessions at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from inference_worker.engines.minicpmo.forward import covering
from inference_worker.engines.minicpmo.kv_cache import CacheWindow, SlottedCache
from inference_worker.engines.minicpmo.model.audio import trim
from inference_worker.engines.minicpmo.model.network import MiniCPMO
from inference_worker.engines.minicpmo.placing import carried
from inference_worker.engines.minicpmo.steps import Hear


class Listener:
    """Each chunk sees itself and all its session heard before."""

    def __init__(self, network: MiniCPMO, cache: SlottedCache, *, invariant: bool) -> None:
        self._network = network
        self._cache = cache
        self._invariant = invariant

    def hear(self, chunks: Sequence[Hear]) -> list[Tensor]:
        """Embeddings (10, width) of chunks of one size, one for each slot."""
        network, cache, size = self._network, self._cache, chunks[0].size
        last = max(chunk.slot for chunk in chunks), max(chunk.start + size for chunk in chunks)
        rows, length = covering(cache, *last, invariant=self._invariant)
        width = network.config.audio_config.d_model
        steps = torch.zeros(rows, size, width, dtype=network.dtype, device=network.device)
        positions = torch.zeros(rows, size, dtype=torch.long)
        writes = torch.full_like(positions, cache.positions)
        seen = torch.ones(rows, dtype=torch.long)
        for chunk in chunks:
            steps[chunk.slot] = self._convolve(chunk)
            end = chunk.start + size
            positions[chunk.slot] = writes[chunk.slot] = torch.arange(chunk.start, end)
            seen[chunk.slot] = end
        entries = torch.arange(length, device=network.device)
        mask = entries < carried(seen, network.device)[:, None, None, None]
        window = CacheWindow(cache, 0, carried(writes, network.device), length)
        places = carried(positions, network.device)
        encoded = network.apm(steps, places, mask.expand(-1, 1, size, -1), window)
        embeds = network.audio_projection_layer(encoded)
        return [embeds[chunk.slot] for chunk in chunks]

    def _convolve(self, chunk: Hear) -> Tensor:
        """Alone for each chunk: what surrounds a chunk is silence, not its neighbour."""
        network = self._network
        mel = carried(chunk.mel[None], network.device).to(network.dtype)
        steps = network.apm.convolve(mel)
        leading, trailing = chunk.leading_frames, chunk.trailing_frames
        return trim(steps, leading_frames=leading, trailing_frames=trailing)[0]
