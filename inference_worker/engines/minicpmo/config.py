"""Typed contents of the checkpoint's config.json, the options of a deployment, and the known cards."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.constant import CONSTANT

Fidelity = Literal["upstream", "fixed"]
""""upstream" reproduces the oddities of the reference; "fixed" corrects plain bugs."""

KernelChoice = Literal["auto", "triton", "torch"]
"""What runs between the matrix products of a decoder layer; "auto" is Triton on a GPU where it compiles."""

Quantization = Literal["none", "int8", "fp8"]
"""What the linear weights of the language model become at load. fp8 needs Ada or Hopper."""

MAX_SLOTS = 256

VOCODER_GRAPH_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""A batch in between is padded to the next of these numbers."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class VisionConfig(_Section):
    """SigLIP encoder; `image_size` / `patch_size` is the side of the position table."""

    hidden_size: int = 1152
    intermediate_size: int = 4304
    num_attention_heads: int = 16
    num_hidden_layers: int = 27
    image_size: int = 980
    patch_size: int = 14
    layer_norm_eps: float = 1e-6

    @property
    def positions_per_side(self) -> int:
        """Buckets along one side of the position table (70 for 980 / 14)."""
        return self.image_size // self.patch_size


class AudioConfig(_Section):
    """Whisper encoder; `max_source_positions` counts post-convolution steps of 20 ms."""

    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    num_mel_bins: int = 80
    max_source_positions: int = 1500


class SpeechConfig(_Section):
    """The speech model: a Llama that turns text states into audio codes, 25 per second."""

    llm_dim: int
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    num_key_value_heads: int = 12
    num_hidden_layers: int = 20
    max_position_embeddings: int = 4096
    num_audio_tokens: int = 4097
    num_text_tokens: int = 21178
    audio_bos_token_id: int = 21132
    text_eos_token_id: int = 21133
    num_vq: Literal[1] = 1
    projector_type: Literal["mlp"] = "mlp"
    condition_type: Literal["hidden_text_merge"] = "hidden_text_merge"

    rms_norm_eps: ClassVar[float] = 1e-6
    rope_theta: ClassVar[float] = 10000.0
    vocab_size: ClassVar[int] = 32000
    """The library's defaults. The checkpoint contains a table of `vocab_size` words that nothing uses."""

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def end_code(self) -> int:
        """The code that ends a chunk. It is never fed to the model and never synthesized."""
        return self.num_audio_tokens - 1


class SliceConfig(_Section):
    """How an image is sliced: side of a slice in pixels, maximum number of slices."""

    max_slice_nums: int = 9
    scale_resolution: int = 448
    patch_size: int = 14


class _PackedWeights(_Section):
    num_bits: int = 0
    group_size: int | None = None


class _QuantizedGroup(_Section):
    weights: _PackedWeights | None = None


class QuantizationConfig(_Section):
    """How the checkpoint's linear weights are packed; each program writes some of the fields."""

    quant_method: str
    bits: int = 4
    group_size: int = 128
    version: str = "gemm"
    checkpoint_format: str = "gptq"
    format: str = ""
    config_groups: dict[str, _QuantizedGroup] = Field(default={})

    @property
    def group(self) -> int:
        """Inputs that share a scale, at most 128: longer groups are split."""
        weights = [group.weights for group in self.config_groups.values() if group.weights]
        size = weights[0].group_size if weights else self.group_size
        return min(size, 128) if size is not None and size > 0 else 128


class ModelConfig(_Section):
    """The parts of config.json the engine reads; the language model's fields are at the top.

    A field that a file leaves out has the default of the reference's configuration classes.
    """

    model_type: Literal["minicpmo"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int = 40960
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e6
    tie_word_embeddings: Literal[False] = False
    drop_vision_last_layer: bool = True
    query_num: int = 64
    audio_pool_step: int = 5
    audio_chunk_length: float = 1.0
    slice_config: SliceConfig = SliceConfig()
    vision_config: VisionConfig = VisionConfig()
    audio_config: AudioConfig
    tts_config: SpeechConfig
    quantization_config: QuantizationConfig | None = None

    @property
    def used_vision_config(self) -> VisionConfig:
        """The vision encoder without the layer that is dropped."""
        layers = self.vision_config.num_hidden_layers - self.drop_vision_last_layer
        return self.vision_config.model_copy(update={"num_hidden_layers": layers})


class EngineOptions(BaseModel):
    """Options of the operator. `context_tokens` is per slot; memory grows with slots * context.

    `device` is "auto" or "cuda" for the first GPU, "cuda:1" or so for another, or "cpu".

    `vocoder` is the folder of Token2wav, or a checkpoint that has it. "auto" takes assets/token2wav of
    the model's checkpoint if that folder and a GPU exist; "none" serves text only. `vocoder_graphs` is the
    largest number of sessions whose chunks run together in CUDA graphs; 0, or `cuda_graphs` off, means
    none. `voice_seconds` of a reference voice are used; the memory of a session grows with them.
    `kernels`: "auto" is Triton on a GPU where it compiles.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(default=4, ge=1, le=MAX_SLOTS)
    context_tokens: int = Field(default=8192, ge=64)
    device: str = "auto"
    fidelity: Fidelity = "upstream"
    window: Literal["off", "basic", "context"] = "off"
    vocoder: Path | Literal["auto", "none"] = "auto"
    vocoder_graphs: int = Field(default=8, ge=0, le=32)
    voice_seconds: float = Field(default=6.0, ge=1.0, le=15.0)
    cuda_graphs: bool = True
    kernels: KernelChoice = "auto"
    quantize: Quantization = "none"

    basic_high_tokens: Annotated[int, CONSTANT] = 4000
    basic_low_tokens: Annotated[int, CONSTANT] = 3500
    context_max_units: Annotated[int, CONSTANT] = 24
    context_previous_max_tokens: Annotated[int, CONSTANT] = 500
    speech_tokens: Annotated[int, CONSTANT] = 4096
    speech_stream: Annotated[bool, CONSTANT] = True
    """audio codes are drawn on a second CUDA stream, beside the steps of the language model"""
    seed: Annotated[int, CONSTANT] = 0
    """of the first session; each later one has the next"""
    vocoder_steps: Annotated[int, CONSTANT] = 5
    """steps of the solver for each chunk, as many as in the public demo"""
    vocoder_tf32: Annotated[bool, CONSTANT] = True
    """the vocoder's matrix products run in TF32, as torch runs convolutions anyway"""
    fixed_shapes: Annotated[bool | None, CONSTANT] = None
    """every batch covers all slots and the whole context, so that the numbers of a session do not depend
    on the other sessions; None: on for a CPU, off for a GPU"""

    @property
    def vocoder_graph_sizes(self) -> tuple[int, ...]:
        """Numbers of sessions for which the vocoder has CUDA graphs, ascending."""
        largest = min(self.vocoder_graphs, self.slots) if self.cuda_graphs else 0
        if not largest:
            return ()
        return tuple(sorted({min(size, largest) for size in VOCODER_GRAPH_SIZES}))


@dataclass(frozen=True, slots=True)
class Card:
    """The GiB that are assumed to be free without a display, and the compute capability."""

    name: str
    free_gib: float
    capability: tuple[int, int]


CARDS = {
    "a10": Card("NVIDIA A10", 22.0, (8, 6)),
    "a100-40": Card("NVIDIA A100 40 GB", 39.0, (8, 0)),
    "a100-80": Card("NVIDIA A100 80 GB", 79.0, (8, 0)),
    "h100": Card("NVIDIA H100 80 GB", 79.0, (9, 0)),
    "h200": Card("NVIDIA H200", 139.0, (9, 0)),
    "l4": Card("NVIDIA L4", 22.0, (8, 9)),
    "l40s": Card("NVIDIA L40S", 44.0, (8, 9)),
    "rtx-3090": Card("NVIDIA GeForce RTX 3090", 23.5, (8, 6)),
    "rtx-4090": Card("NVIDIA GeForce RTX 4090", 23.5, (8, 9)),
    "rtx-5090": Card("NVIDIA GeForce RTX 5090", 31.0, (12, 0)),
}


def find_card(name: str) -> Card:
    """The card of this name. Raises EngineLoadError, which lists all names."""
    card = CARDS.get(name.lower())
    if card is None:
        raise EngineLoadError(f"no card is called {name!r}; the cards are {', '.join(CARDS)}")
    return card
