"""Lower bound for the time of a unit: its bytes and FLOPs over the limits of the card."""

from dataclasses import dataclass

import torch

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO


@dataclass(frozen=True)
class Card:
    """Limits of the device: memory bandwidth in TB/s, dense bfloat16 in TFLOP/s."""

    tbps: float
    tflops: float


@dataclass(frozen=True)
class Stage:
    """`passes` over `parameters` for `tokens` of each session; each reads `cache` values per session."""

    name: str
    parameters: int
    passes: int
    tokens: int
    cache: int
    speaks: bool = False

    def moved(self, width: int, sessions: int) -> float:
        """Bytes read, for values of `width` bytes."""
        return float(self.passes * width * (self.parameters + self.cache * sessions))

    def work(self, sessions: int) -> float:
        """FLOPs of the matrix products with weights."""
        return 2.0 * self.parameters * self.tokens * sessions


_SOUND, _SPEECH = 750, 512
"""Steps of audio and positions of speech in their caches."""


def stages(network: MiniCPMO, text: int) -> list[Stage]:
    """Stages of a unit with 19 tokens and 25 codes; `text`: tokens in the cache."""
    config = network.config
    audio, tts = config.audio_config, config.tts_config
    body, head = _size(network.llm.model.layers), _size(network.llm.lm_head)
    text_cache = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * text
    audio_cache = 2 * audio.encoder_layers * audio.d_model * _SOUND
    speech_cache = 2 * tts.num_hidden_layers * tts.hidden_size * _SPEECH
    encoder = _size(network.apm) + _size(network.audio_projection_layer)
    speaker = _size(network.tts.model.layers) + network.tts.head_weight.numel()
    return [
        Stage("audio encoder", encoder, 1, 50, audio_cache),
        Stage("prefill", body + head, 1, 11, text_cache),
        Stage("decode", body + head, 19, 19, text_cache, speaks=True),
        Stage("speech", speaker, 26, 44, speech_cache, speaks=True),
        Stage("close", body, 1, 2, text_cache),
    ]


def roofline(network: MiniCPMO, card: Card, *, sessions: int, text: int) -> list[str]:
    """A table of the lower bound of each stage in milliseconds for `sessions` in step, without the vocoder."""
    width, bounds = network.dtype.itemsize, {True: 0.0, False: 0.0}
    lines = ["| stage | GB | TFLOP | bound, ms |", "|---|---|---|---|"]
    for stage in stages(network, text):
        moved, work = stage.moved(width, sessions) / 1e12, stage.work(sessions) / 1e12
        bound = max(moved / card.tbps, work / card.tflops) * 1000
        bounds[stage.speaks] += bound
        lines.append(f"| {stage.name} | {moved * 1000:.2f} | {work:.3f} | {bound:.2f} |")
    listen, speak = bounds[False], bounds[True]
    return [*lines, f"| LISTEN | | | {listen:.2f} |", f"| SPEAK | | | {listen + speak:.2f} |"]


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
