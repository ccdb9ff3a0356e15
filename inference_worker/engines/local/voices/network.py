"""What is changed in the network of Kokoro when it is loaded.

It computes no silence, multiplies faster, and is cut in two: the second half makes sound piece by piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.common.onnx_file import ElementType, Network, Node, cast_to

STEPS = "/encoder/Gather_output_0"
"""The output with the duration of each symbol, in steps of 25 ms."""

COUNTS = "cut.counts"
"""The input with 1 for each symbol up to the last one with sound, and 0 after it."""

LEAD_STEPS = 6
"""Of the pad before the symbols. The sound begins up to four steps before the first symbol."""

_TAIL_STEPS = 4
"""After the last symbol with sound. With two, last words sound cut."""

_PER_STEP = {
    "/encoder/MatMul_1_output_0": 1,
    "/encoder/Reshape_output_0": 2,
    "/encoder/Reshape_1_output_0": 2,
}
"""What the decoder gets, with the values per step: the symbols, the pitch and the loudness."""

FEATURES = "/decoder/decoder/decode.3/Div_4_output_0"
"""What the generator gets: [1, 512, 2 per step]."""

HARMONICS = "/decoder/decoder/generator/Concat_3_output_0"
"""The spectrum of the voice's pitch: [1, 22, 120 per step and one more]."""

SOUND = "audio"
OWN, GIVEN = "own", "given"
OWN_SUFFIX, GIVEN_SUFFIX = ".own", ".given"

_GENERATOR = "/decoder/decoder/generator/"
_FIRST_BLOCKS = frozenset(("noise_res.0", "resblocks.0", "resblocks.1", "resblocks.2"))


def counts_of(symbols: Sequence[int], marks: frozenset[int]) -> NDArray[np.int64]:
    """The input COUNTS for `symbols` with their pads. `marks`: those without sound."""
    counts = np.ones(len(symbols), dtype=np.int64)
    last = len(symbols) - 1
    while last and symbols[last] in marks:
        counts[last] = 0
        last -= 1
    return counts


def cut_silence(network: Network) -> None:
    """Add the input COUNTS and the output STEPS. The decoder gets the steps between the silences only.

    More than a third of a short clause is silence around the words, which costs as much as speech. The
    durations and the melody are computed with it, because they depend on it. The decoder, which takes most of
    the time, does without.
    """
    numbers = {"zero": 0, "one": 1, "two": 2, "last": -1, "lead": LEAD_STEPS, "tail": _TAIL_STEPS}
    for name, number in numbers.items():
        network.add_constant(f"cut.{name}", np.array([number], dtype=np.int64))
    for node in network.nodes:
        node.outputs = [f"{name}.uncut" if name in _PER_STEP else name for name in node.outputs]
    network.nodes += [
        Node("Slice", [STEPS, "cut.zero", "cut.one"], ["cut.pad"]),
        Node("Sub", ["cut.pad", "cut.lead"], ["cut.silence"]),
        Node("Max", ["cut.silence", "cut.zero"], ["cut.begin1"]),
        Node("Mul", [STEPS, COUNTS], ["cut.counted"]),
        Node("ReduceSum", ["cut.counted"], ["cut.stop"]),
        Node("Add", ["cut.stop", "cut.tail"], ["cut.end1"]),
        Node("Mul", ["cut.begin1", "cut.two"], ["cut.begin2"]),
        Node("Mul", ["cut.end1", "cut.two"], ["cut.end2"]),
    ]
    for name, rate in _PER_STEP.items():
        bounds = [f"cut.begin{rate}", f"cut.end{rate}", "cut.last"]
        network.nodes.append(Node("Slice", [f"{name}.uncut", *bounds], [name]))
    network.add_input(COUNTS, ElementType.INT64)
    network.add_output(STEPS, ElementType.INT64)


class Halves(NamedTuple):
    """`melody` turns symbols into FEATURES, HARMONICS and STEPS, and `generator` turns these into sound.

    `statistics`: the means and variances in the generator, [1, channels, 1] each.
    """

    melody: Network
    generator: Network
    statistics: tuple[str, ...]


def cut_in_two(network: Network) -> Halves:
    """The two halves of the network, which a piece of a clause is made with.

    The generator takes nine tenths of the time. It normalises each channel by its mean and variance over the
    whole clause. With the inputs OWN 0 and GIVEN 1, it uses given ones instead, so that a piece of the
    features gives the same sound as within all of them.
    """
    whole = {FEATURES: ElementType.FLOAT, HARMONICS: ElementType.FLOAT}
    melody = network.part({}, {**whole, STEPS: ElementType.INT64})
    generator = network.part(whole, {SOUND: ElementType.FLOAT})
    means = [
        node
        for node in generator.nodes
        if node.operation == "ReduceMean" and node.outputs[0].startswith(_GENERATOR)
    ]
    statistics = tuple(node.outputs[0] for node in means)
    for node, name in zip(means, statistics, strict=True):
        own, given = f"{name}{OWN_SUFFIX}", f"{name}{GIVEN_SUFFIX}"
        node.outputs = [own]
        generator.nodes += [
            Node("Mul", [own, OWN], [f"{own}.share"]),
            Node("Mul", [given, GIVEN], [f"{given}.share"]),
            Node("Add", [f"{own}.share", f"{given}.share"], [name]),
        ]
        generator.add_input(given, ElementType.FLOAT)
    generator.add_input(OWN, ElementType.FLOAT)
    generator.add_input(GIVEN, ElementType.FLOAT)
    return Halves(melody, generator, statistics)


def statistic_width(name: str) -> int:
    """Channels of one of them. The second half of the generator has a higher rate and fewer channels."""
    block = name.removeprefix(_GENERATOR).split("/")[0]
    return 256 if block in _FIRST_BLOCKS else 128


def use_signed_inputs(network: Network) -> None:
    """Give all convolutions of bytes signed inputs, with the same results.

    ONNX Runtime multiplies unsigned weights by signed inputs with the instructions for it (VNNI, AMX), and two
    unsigned numbers without. An input minus 128 is what the flip of its first bit leaves.
    """
    flip = "signed.flip"
    network.add_constant(flip, np.array(128, dtype=np.uint8))
    signed: dict[str, str] = {}
    for node in list(network.nodes):
        if node.operation != "ConvInteger":
            continue
        for place in (0, 2):
            name = node.inputs[place]
            if name not in signed:
                signed[name] = f"{name}.signed"
                flipped = f"{name}.flipped"
                network.nodes += [
                    Node("BitwiseXor", [name, flip], [flipped]),
                    cast_to(ElementType.INT8, flipped, signed[name]),
                ]
            node.inputs[place] = signed[name]


@cache
def signed_inputs_are_better() -> bool:
    """Whether `use_signed_inputs` changes no result on this machine, and saves time.

    Without the instructions, sums of two products may exceed 16 bits. Old versions of ONNX Runtime have no
    such convolution.
    """
    channels, steps = 128, 512
    weights = np.full((channels, channels, 7), 255, dtype=np.uint8)
    weights[::2] = 0
    inputs = np.zeros((1, channels, steps), dtype=np.uint8)
    inputs[..., ::3] = 255

    def session(change: Callable[[Network], None] | None = None) -> Any:
        network = Network.empty()
        network.add_input("x", ElementType.UINT8, inputs.shape)
        network.add_constant("weights", weights)
        network.add_constant("zero", np.array(0, dtype=np.uint8))
        network.add_constant("middle", np.array(128, dtype=np.uint8))
        convolution = Node("ConvInteger", ["x", "weights", "zero", "middle"], ["y"])
        network.nodes.append(convolution)
        network.add_output("y", ElementType.INT32, (1, channels, steps - 6))
        if change is not None:
            change(network)
        return cpu_session(network.to_bytes())

    def run(session: Any) -> tuple[NDArray[np.int32], int]:
        begin = time.thread_time_ns()
        (result,) = session.run(None, {"x": inputs})
        return result, time.thread_time_ns() - begin

    try:
        unsigned, signed = session(), session(use_signed_inputs)
    except Exception:  # noqa: BLE001 - the library's errors have no other base
        return False
    runs = [(run(unsigned), run(signed)) for _ in range(5)]
    if any(not np.array_equal(right[0], result[0]) for right, result in runs):
        return False
    return min(result[1] for _, result in runs) < min(right[1] for right, _ in runs)
