"""What the engine counts before it loads, at the real sizes, for cards that people own."""

from typing import Any

import pytest
import torch
from structlog.testing import capture_logs

from antiphon.inference_worker.engines.minicpmo.config import (
    CARDS,
    EngineOptions,
    ModelConfig,
    QuantizationConfig,
)
from antiphon.inference_worker.engines.minicpmo.model import memory
from antiphon.inference_worker.engines.minicpmo.model.memory import (
    GIB,
    check_memory,
    estimate,
    voice_bytes,
    weight_bytes,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo import golden_set
from support.minicpmo.fake_gpu import fake_gpu, network_on
from support.minicpmo.fake_serving import with_layers

CARD = torch.device("cuda", 0)
CONSUMER_24 = int(23.5 * GIB)
"""What a consumer card of 24 GiB has free without a display."""


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])


def refused(
    config: ModelConfig, options: EngineOptions, free: int, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The error with `free` bytes on the device, or an empty text."""
    monkeypatch.setattr(memory, "free_bytes", lambda _device: free)
    try:
        check_memory(config, options, CARD, voices=options.vocoder != "none")
    except EngineLoadError as error:
        return str(error)
    return ""


def test_several_voices_need_quantised_weights_on_a_card_of_24_gib(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One voice and text do not."""
    options = EngineOptions(slots=2)
    assert "set --quantize to int8; or" in refused(config, options, CONSUMER_24, monkeypatch)
    fitting = ({"slots": 1}, {"quantize": "int8", "slots": 4}, {"vocoder": "none", "slots": 2})
    for changes in fitting:
        options = EngineOptions(**changes)
        assert refused(config, options, CONSUMER_24, monkeypatch) == ""


def test_64_sessions_with_voices_fit_an_h200_with_a_shorter_context(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration that docs/gpu.md names."""
    free = int(CARDS["h200"].free_gib * GIB)
    options = EngineOptions(slots=64)
    assert "context_tokens to 4096; or" in refused(config, options, free, monkeypatch)
    options = EngineOptions(slots=64, context_tokens=4096)
    assert refused(config, options, free, monkeypatch) == ""


def test_the_log_compares_the_estimate_with_what_the_load_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (50 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 28 * GIB)
    with capture_logs() as logs:
        memory.log_memory(29 * GIB, 79 * GIB, CARD)
        memory.log_memory(29 * GIB, 79 * GIB, torch.device("cpu"))
    [entry] = logs
    sizes = {"estimated": 29, "taken": 29, "reserved": 28, "free": 50, "total": 80}
    assert {name: entry[f"{name}_gib"] for name in sizes} == sizes


def test_a_refusal_names_the_settings_that_fit(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EngineOptions(slots=4)
    error = refused(config, options, int(23.45 * GIB), monkeypatch)
    assert "4 slots of 8192 tokens need" in error
    assert "23.4 GiB are free: set --slots to 1; or set --quantize to int8; or set" in error
    error = refused(config, options, int(22.85 * GIB), monkeypatch)
    assert "set the engine option context_tokens to 4096 and --slots to 1" in error
    assert "vocoder_graphs" not in error
    assert "set the engine option vocoder to none (text only) and --slots to 2" in error
    error = refused(config, options, int(23.3 * GIB), monkeypatch)
    assert "set the engine option vocoder_graphs to 0 and --slots to 1" in error
    assert "use a device with more memory" in refused(config, options, 15 * GIB, monkeypatch)


def test_every_named_change_fits(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    free = int(22.85 * GIB)
    for changes in (
        {"context_tokens": 4096, "slots": 1},
        {"vocoder": "none", "slots": 2},
        {"quantize": "int8", "slots": 4},
    ):
        options = EngineOptions(**changes)
        assert refused(config, options, free, monkeypatch) == ""
    assert refused(config, EngineOptions(slots=1), free, monkeypatch) != ""


def test_a_voice_counts_by_its_length() -> None:
    """The package's own cache of two seconds at two solver steps takes 26 MB in float32."""
    per_frame = 26_214_400 / 100 / 2 + 7 * 2 * 8 * 64 * 4
    for seconds, frames in ((6, 300 + 400), (15, 750 + 850)):
        options = EngineOptions(vocoder_steps=2, voice_seconds=seconds)
        convolutions = 2 * 2 * 262_144
        assert voice_bytes(options) == frames * per_frame + convolutions


def test_slots_that_fit(config: ModelConfig) -> None:
    counted = estimate(config, EngineOptions(), "cuda", voices=True)
    assert counted.fitting(counted.of(5)) == 5
    assert counted.fitting(counted.of(5) - 1) == 4
    assert counted.fitting(0) == 0


def test_graphs_of_the_vocoder_count_up_to_their_largest_batch(config: ModelConfig) -> None:
    def bytes_of(slots: int, **options: Any) -> int:
        return estimate(config, EngineOptions(**options), "cuda", voices=True).of(slots)

    def graphs(slots: int, **options: Any) -> int:
        return bytes_of(slots, **options) - bytes_of(slots, **(options | {"vocoder_graphs": 0}))

    assert 0 < graphs(1) < graphs(4) < graphs(8) == graphs(64)
    assert graphs(64) < graphs(64, vocoder_graphs=16)
    assert graphs(64, cuda_graphs=False) == 0


def test_quantised_weights_count_as_the_engine_holds_them(config: ModelConfig) -> None:
    """Compared with the tensors of a network with fewer layers on the fake GPU."""
    config = with_layers(config, text=8, speech=2, audio=2, vision=3)
    packed = QuantizationConfig(quant_method="awq", group_size=128)
    awq = config.model_copy(update={"quantization_config": packed})
    for form, given in (("int8", config), ("fp8", config), ("packed", awq)):
        with fake_gpu() as gpu:
            network = network_on(given, fused=False, weights=form)
            counted = weight_bytes(given, 2, "none" if form == "packed" else form)  # type: ignore[arg-type]
            assert gpu.held == pytest.approx(counted, rel=0.003)
            del network


def test_packed_weights_serve_text_on_a_card_of_12_gib(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = QuantizationConfig(quant_method="awq", group_size=128)
    awq = config.model_copy(update={"quantization_config": packed})
    options = EngineOptions(slots=1, context_tokens=4096, vocoder="none")
    assert refused(awq, options, int(11.5 * GIB), monkeypatch) == ""
    assert "use a device with more memory" in refused(awq, options, 10 * GIB, monkeypatch)
