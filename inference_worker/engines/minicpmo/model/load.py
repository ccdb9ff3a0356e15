"""Loads the official folder: build on the meta device, check every name, stream the weights in."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import (
    WEIGHTS,
    StoredTensor,
    indexed_weights,
    read_config,
    read_header,
)
from antiphon.inference_worker.engines.minicpmo.config import (
    EngineOptions,
    ModelConfig,
    Quantization,
)
from antiphon.inference_worker.engines.minicpmo.device import pick_device
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import check_kernels, use_triton
from antiphon.inference_worker.engines.minicpmo.model.layer import TorchKernels, set_quantized
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QUANTIZERS,
    PackedFormat,
    packed_format,
)
from antiphon.inference_worker.engines.types import EngineLoadError, LoadProgress

log = structlog.get_logger()

WEIGHT_TYPES = ("BF16", "F16", "F32")
"""Types of plain weights, by their names in safetensors."""

NAMES_SHOWN = 8
FP8_CAPABILITY = (8, 9)


def build_on_meta(config: ModelConfig, *, fused: bool = False) -> MiniCPMO:
    """The network without storage: names and shapes only."""
    with torch.device("meta"):
        return MiniCPMO(config, fused=fused)


def load_network(folder: Path, options: EngineOptions, report: LoadProgress) -> MiniCPMO:
    """The network with its weights, ready to run: bfloat16 on a GPU, float32 on a CPU.

    Raises EngineLoadError for a wrong folder, missing names, or wrong shapes or types. Names that
    the network does not have are ignored.
    """
    device = pick_device(options.device)
    check_fp8(options, device)
    fused = use_triton(options.kernels, device)
    config = read_config(folder)
    network = build_on_meta(config, fused=fused)
    shards = find_shards(folder)
    stored = stored_tensors(shards)
    ignored = check_tensors(network, stored, stored)
    if ignored:
        log.warning("unknown_tensors", count=len(ignored), names=some(ignored))
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    weights = WeightLoader(network, stored, dtype, options.quantize)
    for count, path in enumerate(sorted(set(shards.values())), start=1):
        report(f"weights {count}/{len(set(shards.values()))} to {device}")
        with open_weights(path, str(device)) as file:
            for name in file.keys():  # noqa: SIM118  # a file handle, not a dict
                if name not in ignored:
                    weights.take(name, file.get_tensor(name))
    compute_buffers(network, device)
    if fused:
        report("programs")
        with torch.cuda.device(device):  # Triton launches on the current device
            check_kernels(network, TorchKernels(), options.kernels)
    if device.type == "cuda":
        # Joining weights leaves holes of the size of a projection, which no later allocation fits.
        torch.cuda.empty_cache()
    return network.eval().requires_grad_(False)


def check_fp8(options: EngineOptions, device: torch.device) -> None:
    """Raise EngineLoadError if `options` ask for fp8 and the GPU cannot convert it."""
    if options.quantize == "fp8" and device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        check_capability(options, name, torch.cuda.get_device_capability(device))


def check_capability(options: EngineOptions, card: str, capability: tuple[int, int]) -> None:
    """The same for a card of this compute capability."""
    if options.quantize == "fp8" and capability < FP8_CAPABILITY:
        raise EngineLoadError(
            "quantize=fp8 needs a card of Ada, Hopper or later (compute capability 8.9); "
            f"{card} has {'.'.join(map(str, capability))}: use int8"
        )


def find_shards(folder: Path) -> dict[str, Path]:
    """Map each tensor name to its file, from the index or the single file."""
    indexed = indexed_weights(folder)
    if indexed is not None:
        return indexed
    single = folder / WEIGHTS
    with open_weights(single) as file:
        return dict.fromkeys(file.keys(), single)


def open_weights(path: Path, device: str = "cpu") -> Any:
    """A weight file, as a context manager. Raises EngineLoadError for a truncated or invalid file."""
    try:
        return safe_open(path, framework="pt", device=device)
    except (SafetensorError, OSError) as error:
        raise EngineLoadError(
            f"{path} is truncated or invalid ({error}); download it again"
        ) from error


def check_tensors(
    network: MiniCPMO, found: Collection[str], stored: Mapping[str, StoredTensor]
) -> list[str]:
    """The names among `found` that the network does not have. `stored` are the known shapes and types.

    Raises EngineLoadError listing what is missing, or naming a tensor of another shape or type.
    """
    expected, ours = expected_names(network, found), network.state_dict()
    missing = expected.difference(found)
    if missing:
        raise EngineLoadError(
            f"the checkpoint does not fit this model; {len(missing)} missing names: "
            f"{some(sorted(missing))}"
        )
    # Packed weights have other shapes, which are checked when they are repacked.
    for name in sorted(expected & ours.keys() & stored.keys()):
        tensor, shape = stored[name], tuple(ours[name].shape)
        if tensor.shape != shape:
            raise EngineLoadError(f"{name} has shape {tensor.shape}, this model expects {shape}")
        if tensor.dtype not in WEIGHT_TYPES:
            raise EngineLoadError(
                f"{name} has the type {tensor.dtype}, this model expects one of "
                f"{', '.join(WEIGHT_TYPES)}"
            )
    return sorted(set(found) - expected)


def stored_tensors(shards: Mapping[str, Path]) -> dict[str, StoredTensor]:
    """The tensors of all files of a checkpoint. Raises EngineLoadError."""
    found: dict[str, StoredTensor] = {}
    for path in sorted(set(shards.values())):
        found |= read_header(path)
    return found


def some(names: Sequence[str]) -> str:
    """The first of `names`, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def quantizable(network: MiniCPMO) -> dict[str, nn.Linear]:
    """The linear modules of the language model by name. All others keep 16 bits."""
    found = network.llm.named_modules(prefix="llm")
    return {name: module for name, module in found if isinstance(module, nn.Linear)}


def expected_names(network: MiniCPMO, found: Collection[str]) -> set[str]:
    """The tensors of a checkpoint in which these are `found`: its modules may be packed or plain."""
    names, packing = set(network.state_dict()), packed_format(network.config)
    if packing is None:
        return names
    for module in quantizable(network):
        packed = packing.names(module, found)
        if not packed.isdisjoint(found):
            names = names - {f"{module}.weight"} | packed
    return names


class WeightLoader:
    """Replaces meta parameters by the tensors of a checkpoint with the names `found`, one at a time.

    A packed weight is repacked as soon as all its tensors are there. Plain ones are quantised at once
    if `quantize` asks for it. So the device never holds all weights twice, or in 16 bits.
    """

    def __init__(
        self,
        network: MiniCPMO,
        found: Collection[str],
        dtype: torch.dtype,
        quantize: Quantization,
    ) -> None:
        self._network, self._dtype, self._found = network, dtype, found
        self._quantize = QUANTIZERS.get(quantize)
        self._linear = quantizable(network)
        self._packing = packed_format(network.config)
        self._waiting: dict[str, dict[str, Tensor]] = {}
        if self._quantize is not None and self._packing is not None:
            raise EngineLoadError("the checkpoint is quantised already: remove the option quantize")

    def take(self, name: str, tensor: Tensor) -> None:
        """Raises EngineLoadError on a wrong shape."""
        owner, _, leaf = name.rpartition(".")
        linear = self._linear.get(owner)
        if linear is not None and self._packing is not None and leaf != "weight":
            self._take_packed(owner, linear, self._packing, leaf, tensor)
            return
        assign_parameter(self._network, name, tensor.to(self._dtype))
        if linear is not None and self._quantize is not None:
            set_quantized(linear, self._quantize(linear.weight))

    def _take_packed(
        self, owner: str, linear: nn.Linear, packing: PackedFormat, leaf: str, tensor: Tensor
    ) -> None:
        parts = self._waiting.setdefault(owner, {})
        parts[leaf] = tensor
        if len(parts) < len(packing.names(owner, self._found)):
            return
        weight = packing.repack(self._waiting.pop(owner))
        shape = len(weight.values), weight.inputs
        if shape != linear.weight.shape:
            raise EngineLoadError(
                f"{owner} has shape {shape}, this model expects {tuple(linear.weight.shape)}"
            )
        set_quantized(linear, weight)


def assign_parameter(network: nn.Module, name: str, tensor: Tensor) -> None:
    """Replace the parameter `name` by `tensor`. Raises EngineLoadError on a wrong shape."""
    owner_name, _, leaf = name.rpartition(".")
    owner = network.get_submodule(owner_name)
    expected = getattr(owner, leaf)
    if expected.shape != tensor.shape:
        raise EngineLoadError(
            f"{name} has shape {tuple(tensor.shape)}, this model expects {tuple(expected.shape)}"
        )
    setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))


def compute_buffers(network: MiniCPMO, device: torch.device) -> None:
    """Compute what no checkpoint stores: joined projections, the weight of the speech head, rotary
    frequencies.
    """
    network.tts.fuse_head()
    for body in (network.llm.model, network.tts.model):
        body.join_projections()
        body.compute_frequencies()
        body.inv_freq = body.inv_freq.to(device)
