"""Lower bound for the time of a unit: its bytes and FLOPs over the limits of the card."""

from dataclasses import dataclass

import torch

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import QuantizedWeight


@dataclass(frozen=True)
class Card:
    """Limits of the device: memory bandwidth in TB/s, dense bfloat16 in TFLOP/s."""

    tbps: float
    tflops: float


@dataclass(frozen=True)
class Weights:
    """How many values there are, and the bytes that store them."""

    values: int
    bytes: int

    def __add__(self, other: "Weights") -> "Weights":
        return Weights(self.values + other.values, self.bytes + other.bytes)


@dataclass(frozen=True)
class Stage:
    """`passes` over `weights` for `tokens` of each session; each reads `cache` values per session."""

    name: str
    weights: Weights
    passes: int
    tokens: int
    cache: int
    speaks: bool = False

    def moved(self, width: int, sessions: int) -> float:
        """Bytes read, for values of `width` bytes in the cache."""
        return float(self.passes * (self.weights.bytes + width * self.cache * sessions))

    def work(self, sessions: int) -> float:
        """FLOPs of the matrix products with weights."""
        return 2.0 * self.weights.values * self.tokens * sessions


_SOUND, _SPEECH = 750, 512
"""Steps of audio and positions of speech in their caches."""


def stages(network: MiniCPMO, *, text: int, tokens: int) -> list[Stage]:
    """Stages of a unit with `tokens` and 25 codes; `text`: tokens in the cache."""
    config = network.config
    audio, tts = config.audio_config, config.tts_config
    body, head = _weights(network.llm.model.layers), _weights(network.llm.lm_head)
    text_cache = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * text
    audio_cache = 2 * audio.encoder_layers * audio.d_model * _SOUND
    speech_cache = 2 * tts.num_hidden_layers * tts.hidden_size * _SPEECH
    encoder = _weights(network.apm) + _weights(network.audio_projection_layer)
    speaker = _weights(network.tts.model.layers) + _stored(network.tts.head_weight)
    return [
        Stage("audio encoder", encoder, 1, 50, audio_cache),
        Stage("prefill", body + head, 1, 11, text_cache),
        Stage("decode", body + head, tokens, tokens, text_cache, speaks=True),
        Stage("speech", speaker, 26, tokens + 25, speech_cache, speaks=True),
        Stage("close", body, 1, 2, text_cache),
    ]


def roofline(network: MiniCPMO, card: Card, *, sessions: int, text: int, tokens: int) -> list[str]:
    """A table of the lower bound of each stage in milliseconds for `sessions` in step, without the vocoder."""
    width, bounds = network.dtype.itemsize, {True: 0.0, False: 0.0}
    lines = ["| stage | GB | TFLOP | bound, ms |", "|---|---|---|---|"]
    for stage in stages(network, text=text, tokens=tokens):
        moved, work = stage.moved(width, sessions) / 1e12, stage.work(sessions) / 1e12
        bound = max(moved / card.tbps, work / card.tflops) * 1000
        bounds[stage.speaks] += bound
        lines.append(f"| {stage.name} | {moved * 1000:.2f} | {work:.3f} | {bound:.2f} |")
    listen, speak = bounds[False], bounds[True]
    return [*lines, f"| LISTEN | | | {listen:.2f} |", f"| SPEAK | | | {listen + speak:.2f} |"]


def _weights(module: torch.nn.Module) -> Weights:
    """Those of a module. Quantised ones are no parameters, but attributes of its parts."""
    attributes = [value for part in module.modules() for value in vars(part).values()]
    quantized = [value for value in attributes if isinstance(value, QuantizedWeight)]
    return sum(map(_packed, quantized), sum(map(_stored, module.parameters()), Weights(0, 0)))


def _stored(weight: torch.Tensor) -> Weights:
    return Weights(weight.numel(), weight.nbytes)


def _packed(weight: QuantizedWeight) -> Weights:
    parts = (weight.values, weight.scales, weight.zeros, weight.order)
    size = sum(part.nbytes for part in parts if part is not None)
    return Weights(len(weight.values) * weight.inputs, size)
