"""The three transformers that keep a context, each over the cache of all slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.forward import SlottedBody
from antiphon.inference_worker.engines.minicpmo.graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.kv_cache import SlottedCache
from antiphon.inference_worker.engines.minicpmo.model.attention import causal_mask, chunk_mask
from antiphon.inference_worker.engines.minicpmo.model.audio import AudioEncoder
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO

TEXT_GRAPHS = (1, 2, 16)
"""Tokens that every unit feeds: one by one, the two that end it, the eleven of a second of sound."""

SPEECH_GRAPHS = (1,)
AUDIO_GRAPHS = (50,)
"""Steps of a second of sound after the convolutions."""


class Bodies(NamedTuple):
    """Language, speech and hearing."""

    text: SlottedBody
    speech: SlottedBody
    audio: SlottedBody


def bodies_of(
    network: MiniCPMO,
    graphs: GraphPool,
    *,
    slots: int,
    context: int,
    speech_context: int,
    invariant: bool,
) -> Bodies:
    """Bodies over new caches of `slots` rows, as long as the contexts are."""
    text, audio, speech = network.config, network.config.audio_config, network.config.tts_config

    def over(
        body: Decoder | AudioEncoder,
        mask: Callable[[Tensor, int], Tensor],
        graphed: Sequence[int],
        *sizes: int,
    ) -> SlottedBody:
        layers, positions, heads, head_dim = sizes
        cache = SlottedCache(
            layers=layers,
            slots=slots,
            positions=positions,
            heads=heads,
            head_dim=head_dim,
            device=network.device,
            dtype=network.dtype,
        )
        return SlottedBody(body, cache, graphs, mask=mask, graphed=graphed, invariant=invariant)

    return Bodies(
        over(
            network.llm.model,
            causal_mask,
            TEXT_GRAPHS,
            text.num_hidden_layers,
            context,
            text.num_key_value_heads,
            text.head_dim,
        ),
        over(
            network.tts.model,
            causal_mask,
            SPEECH_GRAPHS,
            speech.num_hidden_layers,
            speech_context,
            speech.num_key_value_heads,
            speech.hidden_size // speech.num_attention_heads,
        ),
        over(
            network.apm,
            chunk_mask,
            AUDIO_GRAPHS,
            audio.encoder_layers,
            audio.max_source_positions,
            audio.encoder_attention_heads,
            audio.d_model // audio.encoder_attention_heads,
        ),
    )
