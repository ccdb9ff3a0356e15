"""Runs Triton programs in Triton's interpreter on the CPU, in a process started with it.

The functions here run in that process. Each compares the fused kernels with torch's and returns the
largest error.
"""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.model import kernel_check
from antiphon.inference_worker.engines.minicpmo.model.attention import (
    additive_mask,
    causal_mask,
    frequencies,
    rotation_tables,
)
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import check_kernels
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import (
    CacheWindow,
    SlottedCache,
    Tiles,
)
from antiphon.inference_worker.engines.minicpmo.model.layer import (
    ForwardInputs,
    LayerSizes,
    SelfAttention,
    TorchKernels,
)
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    compute_buffers,
    load_network,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO, fused_kernels
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QuantizedWeight,
    dequantize,
    pack_int4,
    quantize_fp8,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling import slotted_transformer
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.network_parts import decodes_speech, feeds_text, largest_error, runner_of

SLOTS, POSITIONS = 4, 600


@contextmanager
def interpreter() -> Iterator[ProcessPoolExecutor]:
    """A process pool that runs functions of this module."""
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(torch.set_num_threads, 1).result()
            yield pool
    finally:
        del os.environ["TRITON_INTERPRET"]


@torch.inference_mode()
def of_attention(query_heads: int, key_heads: int, head_dim: int, dtype: torch.dtype) -> float:
    """Norm, rotation, store and attention: rows of any length, idle rows, prompts, several splits.

    The interpreter needs milliseconds for each token and head, so all prompts are short, and other types
    and head sizes are computed for two of the batches only.
    """
    torch.manual_seed(3)
    sizes = LayerSizes(
        width=8,
        intermediate=8,
        query_heads=query_heads,
        key_heads=key_heads,
        head_dim=head_dim,
        eps=1e-6,
        head_norms=query_heads != key_heads,
    )
    errors = []
    group = query_heads // key_heads
    shapes = ((5, 0, 300), (1, 0, 256), (1, 1, 590), (11, 0, 270), (2, 1, 40))
    for new, first, length in shapes if dtype == torch.float32 and group > 1 else shapes[:1]:
        ends = torch.tensor([length, length // 2 + new, 0])
        own = torch.arange(new) + (ends - new)[:, None]
        writes = torch.where(own < 0, POSITIONS, own)
        slots = (torch.arange(3) + first)[:, None].expand_as(own).contiguous()
        runs = [(row * new, (row + 1) * new) for row in range(3)]
        tiles = tiles_of(runs, group, 3 * new) if new != 2 else None
        errors.append(_of_batch(sizes, dtype, own.clamp(min=0), (writes, slots, tiles), length))
    # Tokens of three slots and padding, one after the other.
    slots = torch.tensor([2] * 6 + [0] + [1] * 2 + [0])[:, None]
    own = torch.tensor([*range(254, 260), 299, 0, 1, 0])[:, None]
    tiles = tiles_of([(0, 6), (6, 7), (7, 9), (9, 10)], group, len(slots))
    writes = torch.cat([own[:-1], torch.full((1, 1), POSITIONS)])
    errors.append(_of_batch(sizes, dtype, own, (writes, slots, tiles), 300, ragged=True))
    return max(errors)


def tiles_of(runs: list[tuple[int, int]], group: int, tokens: int) -> Tiles:
    starts, counts = Tiles.of(runs, fused_kernels().tile(group, tokens))
    return Tiles(torch.tensor(starts), torch.tensor(counts), len(starts))


def _of_batch(
    sizes: LayerSizes,
    dtype: torch.dtype,
    positions: Tensor,
    places: tuple[Tensor, Tensor, Tiles | None],
    length: int,
    *,
    ragged: bool = False,
) -> float:
    """`places` are writes, slots and tiles."""
    heads = sizes.query_heads + 2 * sizes.key_heads
    joint = torch.randn(*positions.shape, heads * sizes.head_dim).to(dtype)
    seed = torch.randn(SLOTS, POSITIONS + 1, 2, sizes.key_heads, sizes.head_dim).to(dtype)
    gains = torch.rand(2, sizes.head_dim)
    writes, slots, tiles = places
    answers = []
    for kernels in (TorchKernels(), fused_kernels()):
        attention = SelfAttention(sizes, 0, kernels)
        if sizes.head_norms:
            attention.q_norm.weight, attention.k_norm.weight = map(nn.Parameter, gains.to(dtype))
        cache = SlottedCache(
            layers=1,
            slots=SLOTS,
            positions=POSITIONS,
            heads=sizes.key_heads,
            head_dim=sizes.head_dim,
            device=joint.device,
            dtype=dtype,
        )
        cache.entries[0].copy_(seed)
        first = int(slots[0, 0])
        window = CacheWindow(cache, first, writes, length, slots, tiles=tiles, gathered=ragged)
        rotary = rotation_tables(
            positions[..., None, None] * frequencies(1e4, sizes.head_dim), dtype
        )
        mask = additive_mask(causal_mask(positions, length), dtype)
        shared = ForwardInputs(positions, *rotary, mask, window)
        queries = kernels.rotate_and_store(joint, attention, shared)
        mixed = kernels.attend(queries, attention, shared)
        # All discarded writes go to one entry; their order is undefined.
        answers.append([queries, mixed, cache.entries[0][:, :POSITIONS]])
    return largest_error([a.float() for a in answers[0]], answers[1])


@torch.inference_mode()
def rows_with_a_nan(*, in_keys: bool) -> list[bool]:
    """Which of three rows are finite if the second has one NaN in its second split."""
    sizes = LayerSizes(8, 8, query_heads=4, key_heads=2, head_dim=16, eps=1e-6, head_norms=False)
    attention = SelfAttention(sizes, 0, fused_kernels())
    cache = SlottedCache(
        layers=1,
        slots=3,
        positions=POSITIONS,
        heads=2,
        head_dim=16,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    (cache.keys if in_keys else cache.values)[0][1, 300, :, 5] = float("nan")
    positions = torch.full((3, 1), 500)
    tiles = Tiles(torch.arange(3), torch.ones(3, dtype=torch.long), 3)
    window = CacheWindow(cache, 0, positions, 512, tiles=tiles)
    nothing = torch.zeros(0)
    shared = ForwardInputs(positions, nothing, nothing, None, window)
    mixed = fused_kernels().attend(torch.randn(3, 1, 4, 16), attention, shared)
    return [bool(row.isfinite().all()) for row in mixed]


@torch.inference_mode()
def of_the_rest(width: int, dtype: torch.dtype) -> float:
    """The residual sum and its norm, and the gate."""
    torch.manual_seed(4)
    hidden, update = torch.randn(2, 3, 5, width).to(dtype)
    norm = nn.RMSNorm(width, 1e-6).to(dtype)
    norm.weight = nn.Parameter(torch.rand(width).to(dtype))
    answers: list[list[Tensor]] = [
        [*kernels.add_norm(hidden, update, norm), kernels.gate(torch.cat([hidden, update], -1))]
        for kernels in (TorchKernels(), fused_kernels())
    ]
    return largest_error([a.float() for a in answers[0]], answers[1])


@torch.inference_mode()
def of_a_product(form: str, inputs: int, group: int, dtype: torch.dtype) -> float:
    """Products with a quantised weight: few tokens, several blocks of them, and a prompt."""
    noise = torch.Generator().manual_seed(5)
    outputs, groups = 40, inputs // group
    scales = torch.rand(outputs, groups, generator=noise).to(dtype) / 100
    if form == "fp8":
        weight = quantize_fp8(torch.randn(outputs, inputs, generator=noise))
    elif form == "int8":
        values = torch.randint(-127, 128, (outputs, inputs), generator=noise).to(torch.int8)
        weight = QuantizedWeight(values, scales, None)
    else:
        values = torch.randint(0, 16, (outputs, inputs), generator=noise)
        zeros = torch.randint(0, 16, (outputs, groups), generator=noise)
        order = torch.randperm(inputs, generator=noise)
        weight = pack_int4(values, scales, zeros, order)
    errors = []
    for tokens in (1, 17, 70, 300):
        given = torch.randn(tokens, 1, inputs, generator=noise).to(dtype)
        want = linear(weight.ordered(given).double(), dequantize(weight, torch.float64))
        got = fused_kernels().multiply(given, weight)
        assert (got.shape, got.dtype) == (want.shape, dtype)
        errors.append(largest_error([want], [got.double()]))
    return max(errors)


def networks() -> list[MiniCPMO]:
    """The tiny checkpoint with torch's kernels, and with the fused ones."""
    plain = load_network(CHECKPOINT, EngineOptions(device="cpu"), lambda _line: None)
    fused = build_on_meta(plain.config, fused=True)
    fused.load_state_dict(plain.state_dict(), assign=True)
    compute_buffers(fused, torch.device("cpu"))
    return [plain, fused.eval().requires_grad_(False)]


@torch.inference_mode()
def of_the_decoders() -> float:
    """Results of the language model and the speech model of the tiny checkpoint."""
    tokenizer = Tokenizer(CHECKPOINT)
    with patch.object(slotted_transformer, "MAX_RAGGED_TOKENS", 8):
        plain, fused = (runner_of(network, tokenizer) for network in networks())
    # A prompt that is too long for a ragged batch uses torch's attention.
    answers = [
        [*feeds_text(runner, tokens=9), *decodes_speech(runner)] for runner in (plain, fused)
    ]
    return largest_error(*answers)


def kernels_after_check(*, spoilt: bool) -> list[str]:
    """The kernels of both decoders after the check at load."""
    plain, fused = networks()
    own = fused.llm.model.kernels
    if spoilt:
        gate = own.gate
        own.gate = lambda joint: 1.1 * gate(joint)  # type: ignore[method-assign]
    with patch.object(kernel_check, "TEST_TOKENS", (1, 5)):  # still several tiles
        check_kernels(fused, plain.llm.model.kernels, "auto")
    return [type(body.kernels).__name__ for body in (fused.llm.model, fused.tts.model)]


def error_when_demanded() -> str:
    """The error for programs that do not run."""
    plain, fused = networks()
    fused.llm.model.kernels.gate = lambda joint: joint / 0  # type: ignore[method-assign]
    try:
        check_kernels(fused, plain.llm.model.kernels, "triton")
    except EngineLoadError as error:
        return str(error)
    return ""
