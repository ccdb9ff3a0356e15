"""Loading the folder: names, shapes, shards, and errors with a remedy."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from structlog.testing import capture_logs

from antiphon.inference_worker.engines.minicpmo.config import (
    EngineOptions,
    ModelConfig,
)
from antiphon.inference_worker.engines.minicpmo.device import pick_device
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    compute_buffers,
    load_network,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeSpeech,
    EncodeAudio,
    EncodeImages,
    Feed,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.network_parts import runner_of

CPU = EngineOptions(device="cpu")


def ignore(_line: str) -> None:
    pass


def test_names_and_shapes_equal_those_of_the_real_checkpoint() -> None:
    real = golden_set.facts("real_param_shapes")
    network = build_on_meta(ModelConfig.model_validate(real["config"]))
    ours = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    assert ours == {name: entry["shape"] for name, entry in real["params"].items()}
    assert sum(tensor.numel() for tensor in network.parameters()) == real["total_parameters"]


def test_a_sparse_config_has_the_defaults_of_the_reference() -> None:
    """The sizes of the vision encoder and the speech model are defaults of its classes."""
    whole = golden_set.facts("real_param_shapes")["config"]
    sparse = {name: value for name, value in whole.items() if name != "vision_config"}
    stated = ("llm_dim", "num_audio_tokens", "num_text_tokens")
    sparse["tts_config"] = {name: whole["tts_config"][name] for name in stated}
    config = ModelConfig.model_validate(sparse)
    assert build_on_meta(config).state_dict().keys() == (
        build_on_meta(ModelConfig.model_validate(whole)).state_dict().keys()
    )
    assert config.tts_config.text_eos_token_id == 21133


def test_the_last_layer_of_the_vision_encoder_is_dropped_unless_the_config_retains_it() -> None:
    whole = golden_set.facts("real_param_shapes")["config"]
    silent = {name: value for name, value in whole.items() if name != "drop_vision_last_layer"}
    layers = [
        build_on_meta(ModelConfig.model_validate(config)).vpm.encoder.layers
        for config in (whole, silent)
    ]
    assert [len(each) for each in layers] == [27, 26]


def test_every_weight_is_loaded(network: MiniCPMO) -> None:
    stored = load_file(CHECKPOINT / "model.safetensors")
    ours = network.state_dict()
    assert ours.keys() == stored.keys()
    assert all(torch.equal(ours[name], stored[name]) for name in stored)
    assert not any(t.is_meta for t in (*network.parameters(), *network.buffers()))


def test_shards_load_like_one_file(network: MiniCPMO, tmp_path: Path) -> None:
    source = CHECKPOINT
    shutil.copy(source / "config.json", tmp_path)
    stored = load_file(source / "model.safetensors")
    names = sorted(stored)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, keys in halves.items():
        save_file({k: stored[k] for k in keys}, tmp_path / file)
    weight_map = {key: file for file, keys in halves.items() for key in keys}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    lines = []
    loaded = load_network(tmp_path, CPU, lines.append).state_dict()
    assert all(torch.equal(loaded[k], v) for k, v in network.state_dict().items())
    assert lines == ["weights 1/2 to cpu", "weights 2/2 to cpu"]


def test_unknown_names_are_a_warning(network: MiniCPMO, tmp_path: Path) -> None:
    """Such as those of a module that a later revision of the checkpoint adds."""
    source = CHECKPOINT
    shutil.copy(source / "config.json", tmp_path)
    stored = load_file(source / "model.safetensors")
    stored |= {"llm.extra": torch.ones(2), "later.weight": torch.ones(2)}
    save_file(stored, tmp_path / "model.safetensors")
    with capture_logs() as logs:
        loaded = load_network(tmp_path, CPU, ignore).state_dict()
    assert [(entry["event"], entry["names"]) for entry in logs] == [
        ("unknown_tensors", "later.weight, llm.extra")
    ]
    assert all(torch.equal(loaded[name], tensor) for name, tensor in network.state_dict().items())


def test_a_file_without_a_tensor_that_the_index_promises_is_refused(tmp_path: Path) -> None:
    shutil.copy(CHECKPOINT / "config.json", tmp_path)
    stored = load_file(CHECKPOINT / "model.safetensors")
    index = {"weight_map": dict.fromkeys(stored, "a.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    del stored["resampler.proj"]
    save_file(stored, tmp_path / "a.safetensors")
    with pytest.raises(EngineLoadError, match=r"1 missing names: resampler\.proj$"):
        load_network(tmp_path, CPU, ignore)


def test_a_wrong_type_is_named(tmp_path: Path) -> None:
    shutil.copy(CHECKPOINT / "config.json", tmp_path)
    stored = load_file(CHECKPOINT / "model.safetensors")
    stored["resampler.proj"] = stored["resampler.proj"].to(torch.int8)
    save_file(stored, tmp_path / "model.safetensors")
    with pytest.raises(EngineLoadError, match=r"resampler\.proj has the type I8, this model exp"):
        load_network(tmp_path, CPU, ignore)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported() -> None:
    with pytest.raises(EngineLoadError, match="sees no GPU"):
        pick_device("cuda")


def test_the_real_sizes_fit_together(tokenizer: Tokenizer) -> None:
    """Every type of step at the real sizes, on the meta device: shapes without numbers."""
    config = ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])
    network = build_on_meta(config).to(torch.bfloat16)
    compute_buffers(network, torch.device("meta"))
    runner = runner_of(network, tokenizer, slots=4, speech_context=64)
    [embeds] = runner.run([EncodeAudio(2, 50, torch.zeros(80, 104, device="meta"), 2, 2)])
    assert embeds.shape == (10, 4096)
    pixels = [torch.zeros(3, 14, 14 * 1024, device="meta")]
    [seen] = runner.run([EncodeImages(pixels, [(32, 32)])])
    assert seen.shape == (1, 64, 4096)
    fed = runner.run([Feed(0, 7, ((5, 6), embeds)), Feed(3, 0, ((1,) * 9,))])
    assert [row.logits.shape for row in fed] == [(151748,)] * 2
    condition = torch.zeros(3, 768, dtype=torch.bfloat16, device="meta")
    assert runner.speech_logits(
        [DecodeSpeech(1, 3, condition, CodeRow(SpeechSettings(), (), True))]
    ).shape == (
        1,
        6562,
    )
