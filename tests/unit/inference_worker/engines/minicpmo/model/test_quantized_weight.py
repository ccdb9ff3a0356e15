"""Quantised weights: int8 made at load, and packed checkpoints of other programs."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    check_fp8,
    compute_buffers,
    load_network,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QuantizedWeight,
    dequantize,
    pack_int4,
    quantize_fp8,
    quantize_int8,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo import packed_folders
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.network_parts import decodes_speech, feeds_text, largest_error, runner_of
from support.minicpmo.packed_folders import FORMATS, GROUP, LAYER, write_folder

CPU = EngineOptions(device="cpu")
INT8 = EngineOptions(device="cpu", quantize="int8")
FP8 = EngineOptions(device="cpu", quantize="fp8")


def ignore(_line: str) -> None: ...


@pytest.fixture(scope="module", params=[INT8, FP8], ids=["int8", "fp8"])
def halved(request: pytest.FixtureRequest) -> MiniCPMO:
    return load_network(CHECKPOINT, request.param, ignore)


def test_int8_is_within_half_a_step() -> None:
    weight = torch.randn(40, 384, generator=torch.Generator().manual_seed(1))
    weight[3, :128] = 0
    quantized = quantize_int8(weight)
    assert quantized.values.dtype == torch.int8
    assert quantized.group == 128
    error = (dequantize(quantized, torch.float32) - weight).abs().unflatten(1, (3, 128))
    # Half a step, and what the largest value loses where its scale was rounded down.
    assert bool((error <= quantized.scales.float()[..., None] * 1.01).all())
    assert float(error.mean() / quantized.scales.float().mean()) == pytest.approx(0.25, abs=0.02)
    assert not dequantize(quantized, torch.float32)[3, :128].any()


def test_fp8_is_within_half_a_step_of_its_magnitude() -> None:
    weight = torch.randn(40, 384, generator=torch.Generator().manual_seed(1))
    weight[3] = 0
    quantized = quantize_fp8(weight)
    assert (quantized.values.dtype, quantized.scales.dtype) == (torch.float8_e4m3fn, torch.float32)
    assert (quantized.bits, quantized.group, quantized.tile) == (8, 384, 128)
    got = dequantize(quantized, torch.float32)
    # Three bits of mantissa; below 2^-6 of the scaled values, steps of 2^-9.
    error, scales = (got - weight).abs(), quantized.scales
    assert bool((error <= torch.maximum(weight.abs() / 16, scales * 2**-10) * 1.001).all())
    assert not got[3].any()


@pytest.mark.parametrize(("capability", "refused"), [((8, 6), True), ((8, 9), False)])
def test_fp8_is_refused_by_older_cards(
    capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "RTX A6000")
    message = r"fp8 needs a card of Ada, Hopper .* RTX A6000 has 8\.6: use int8"
    with pytest.raises(EngineLoadError, match=message) if refused else nullcontext():
        check_fp8(FP8, torch.device("cuda"))
    check_fp8(FP8, torch.device("cpu"))
    check_fp8(INT8, torch.device("cuda"))


def test_four_bits_by_the_definition() -> None:
    noise = torch.Generator().manual_seed(2)
    values = torch.randint(0, 16, (24, 192), generator=noise)
    zeros = torch.randint(0, 16, (24, 192 // GROUP), generator=noise)
    scales = torch.rand(24, 192 // GROUP, generator=noise)
    got = pack_int4(values, scales, zeros)
    assert (got.bits, got.inputs, got.group) == (4, 192, GROUP)
    want = packed_folders.exact(values.tolist(), scales, zeros.tolist())
    assert torch.equal(dequantize(got, torch.float32), want)


def test_a_quantised_network_answers_nearly_the_same(
    network: MiniCPMO, halved: MiniCPMO, tokenizer: Tokenizer
) -> None:
    """Both decoders; the speech model is not quantised."""
    plain, quantized = (runner_of(each, tokenizer) for each in (network, halved))
    bound = 0.03 if halved.llm.lm_head.weight.values.dtype == torch.int8 else 0.09
    assert 0 < largest_error(feeds_text(plain), feeds_text(quantized)) < bound
    assert largest_error(decodes_speech(plain), decodes_speech(quantized)) == 0
    layer = halved.llm.model.layers[0]
    for weight in (layer.self_attn.joint, layer.mlp.joint, layer.mlp.down_proj.weight):
        assert isinstance(weight, QuantizedWeight)
    assert isinstance(halved.llm.lm_head.weight, QuantizedWeight)
    assert isinstance(halved.tts.model.layers[0].self_attn.joint, Tensor)


@pytest.mark.parametrize("form", FORMATS)
def test_a_packed_checkpoint_means_its_weights(
    form: str, network: MiniCPMO, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The loaded weights, and the answers of a network that has them in float32."""
    meant = write_folder(tmp_path, form)
    loaded = load_network(tmp_path, CPU, ignore)
    layer = loaded.llm.model.layers[1]
    attention = [f"{LAYER}.self_attn.{name}_proj.weight" for name in "qkv"]
    fed = [f"{LAYER}.mlp.{name}_proj.weight" for name in ("gate", "up")]
    for weight, names in (
        (layer.self_attn.joint, attention),
        (layer.self_attn.o_proj.weight, [f"{LAYER}.self_attn.o_proj.weight"]),
        (layer.mlp.joint, fed),
        (layer.mlp.down_proj.weight, [f"{LAYER}.mlp.down_proj.weight"]),
    ):
        assert isinstance(weight, QuantizedWeight)
        assert weight.bits == 4
        whole = torch.cat([meant[name] for name in names])
        assert torch.equal(dequantize(weight, torch.float32), weight.ordered(whole))
        assert (weight.order is None) == (form != "gptq_act_order")
    exact = build_on_meta(network.config)
    exact.load_state_dict(network.state_dict() | meant, assign=True)
    compute_buffers(exact, torch.device("cpu"))
    answers = [feeds_text(runner_of(each, tokenizer)) for each in (exact, loaded)]
    assert largest_error(*answers) < 1e-5
    assert largest_error(feeds_text(runner_of(network, tokenizer)), answers[1]) > 1e-3


def changed(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_bytes())
    config["quantization_config"] |= changes
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("form", "changes", "says"),
    [
        ("awq", {"version": "gemv"}, "AWQ of 4 bits, version gemv"),
        ("gptq", {"bits": 8}, "GPTQ of 8 bits"),
        ("compressed", {"format": "nvfp4-pack-quantized"}, "compressed-tensors nvfp4"),
        ("awq", {"quant_method": "bitsandbytes"}, "quant_method bitsandbytes"),
    ],
)
def test_other_formats_are_refused_with_a_remedy(
    form: str, changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    config = json.loads((CHECKPOINT / "config.json").read_bytes())
    config["quantization_config"] = packed_folders.CONFIGS[form] | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(CHECKPOINT / "model.safetensors")
    with pytest.raises(EngineLoadError, match=rf"{says}.*quantize=int8"):
        load_network(tmp_path, CPU, ignore)


def test_packed_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, "gptq")
    with pytest.raises(EngineLoadError, match="remove the option quantize"):
        load_network(tmp_path, INT8, ignore)
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    name = f"{LAYER}.self_attn.q_proj"
    order = stored[f"{name}.g_idx"]
    save_file(stored | {f"{name}.g_idx": order.clamp(min=1)}, path)
    with pytest.raises(EngineLoadError, match="g_idx has groups of several sizes"):
        load_network(tmp_path, CPU, ignore)
    save_file(stored | {f"{name}.g_idx": order.flip(0).contiguous()}, path)
    with pytest.raises(EngineLoadError, match="must be quantised alike"):
        load_network(tmp_path, CPU, ignore)
    missing = {key: tensor for key, tensor in stored.items() if key != f"{name}.scales"}
    save_file(missing, path)
    with pytest.raises(EngineLoadError, match=rf"missing.*{name}\.scales"):
        load_network(tmp_path, CPU, ignore)
    wide = {"qweight": 2, "qzeros": 2, "scales": 2}
    doubled = {
        f"{name}.{leaf}": torch.cat([stored[f"{name}.{leaf}"]] * n, 1) for leaf, n in wide.items()
    }
    rows = stored[f"{name}.scales"].shape[1]
    save_file(stored | doubled, path)
    with pytest.raises(EngineLoadError, match=rf"{name} has shape \({2 * rows}, "):
        load_network(tmp_path, CPU, ignore)


def test_a_row_with_one_scale_is_split_into_groups() -> None:
    """compressed-tensors with a scale per output, as the strategy `channel` stores it."""
    from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
        _repack_compressed,
    )

    values = torch.randint(0, 16, (8, 384), generator=torch.Generator().manual_seed(3))
    scales = torch.rand(8, 1)
    weight = _repack_compressed(
        {
            "weight_packed": packed_folders.words(values.tolist()),
            "weight_scale": scales,
            "weight_shape": torch.tensor([8, 384]),
        }
    )
    assert weight.group == 128
    assert torch.equal(dequantize(weight, torch.float32), (values - 8) * scales)
