"""The changed network of the natural voices says the same, and is changed only where that saves time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedByOrt

from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.common.onnx_file import ElementType, Network, Node
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices import kokoro, network
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICE
from antiphon.inference_worker.engines.local.voices.kokoro import Kokoro, load_style
from antiphon.inference_worker.engines.local.voices.network import use_signed_inputs
from antiphon.inference_worker.engines.local.voices.voice import KokoroVoice
from antiphon.shared_schemas.audio import Samples

pytestmark = pytest.mark.speech

_SYMBOLS = (46, 43, 16, 47, 69, 50, 57, 16, 61, 51, 46, 4)


def test_no_sample_changes_on_this_machine(
    local_engine: LocalProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(network: Kokoro) -> Samples:
        return network.speak(_SYMBOLS, load_style("af_heart")).audio

    assert local_engine._models is not None
    voice = local_engine._models.voices.by_id[DEFAULT_VOICE]
    assert isinstance(voice, KokoroVoice)
    chosen = said(voice._network)
    monkeypatch.setattr(kokoro, "signed_inputs_are_better", lambda: False)
    assert len(chosen) > 1000
    assert np.array_equal(chosen, said(Kokoro()))


@pytest.mark.parametrize(
    ("sums", "costs", "is_better"),
    [
        ((1, 1), (9, 5), True),
        ((1, 1), (5, 9), False),
        ((1, 2), (9, 5), False),
    ],
    ids=["faster", "slower", "saturating"],
)
def test_inputs_become_signed_only_where_it_is_exact_and_faster(
    sums: tuple[int, int],
    costs: tuple[int, int],
    is_better: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A processor without the instructions is not at hand: sums and times are those of one."""
    clock = [0]

    class Session:
        def __init__(self, model: bytes) -> None:
            self._kind = int(b"BitwiseXor" in model)

        def run(self, names: None, inputs: object) -> Any:
            clock[0] += costs[self._kind]
            return (np.array([sums[self._kind]]),)

    monkeypatch.setattr(network, "cpu_session", Session)
    monkeypatch.setattr(network.time, "thread_time_ns", lambda: clock[0])
    assert network.signed_inputs_are_better.__wrapped__() is is_better


def test_inputs_stay_unsigned_if_the_library_cannot_take_signed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As version 1.20 of ONNX Runtime, the oldest that is allowed."""

    def old_version(model: bytes) -> Any:
        if b"BitwiseXor" in model:
            raise NotImplementedByOrt("Could not find an implementation for ConvInteger(10)")
        return cpu_session(model)

    monkeypatch.setattr(network, "cpu_session", old_version)
    assert network.signed_inputs_are_better.__wrapped__() is False


def _convolution(largest: int, change: Callable[[Network], None] | None) -> tuple[Any, Any]:
    """The result of a convolution with weights up to `largest`, and the right one."""
    weights = (np.arange(24).reshape(2, 4, 3) * largest // 23).astype(np.uint8)
    inputs = np.arange(32, dtype=np.uint8).reshape(1, 4, 8) * 8
    made = Network.empty()
    made.add_input("x", ElementType.UINT8, inputs.shape)
    made.add_constant("weights", weights)
    made.add_constant("x_zero", np.array(7, dtype=np.uint8))
    made.add_constant("weights_zero", np.array(50, dtype=np.uint8))
    made.nodes.append(Node("ConvInteger", ["x", "weights", "x_zero", "weights_zero"], ["y"]))
    made.add_output("y", ElementType.INT32, (1, 2, 6))
    read = Network.of(made.to_bytes())
    assert read.nodes == made.nodes
    if change is not None:
        change(read)
    (result,) = cpu_session(read.to_bytes()).run(None, {"x": inputs})
    shifted, filters = inputs[0].astype(int) - 7, weights.astype(int) - 50
    right = [[(one * shifted[:, at : at + 3]).sum() for at in range(6)] for one in filters]
    return result.tolist(), [right]


@pytest.mark.parametrize("change", [None, use_signed_inputs], ids=["unsigned", "signed"])
def test_a_convolution_of_bytes(change: Callable[[Network], None] | None) -> None:
    """Two products of these sizes fit into 16 bits, in which processors without VNNI add them."""
    result, right = _convolution(115, change)
    assert result == right


def test_inputs_are_signed_only_where_all_sums_are_right() -> None:
    result, right = _convolution(230, use_signed_inputs)
    assert result == right or not network.signed_inputs_are_better.__wrapped__()
    assert _convolution(230, None) == (right, right)
