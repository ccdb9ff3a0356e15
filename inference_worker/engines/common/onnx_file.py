"""Reads an ONNX file, changes its nodes, and writes it, without the package onnx (17 MB).

The format is protobuf: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

# Numbers of fields.
_MODEL_VERSION, _MODEL_GRAPH, _MODEL_OPERATORS = 1, 7, 8
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_TENSOR, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NAMED = {_GRAPH_TENSOR: 8, _GRAPH_INPUT: 1}
"""What has a name in a graph, and the field with its name."""
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATION, _NODE_ATTRIBUTE = 1, 2, 4, 5

_FORMAT_VERSION = 10
_OPERATORS_VERSION = 20


class ElementType(IntEnum):
    """`TensorProto.DataType`."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    INT32 = 6
    INT64 = 7


_ELEMENT_TYPES = {
    np.dtype(np.float32): ElementType.FLOAT,
    np.dtype(np.uint8): ElementType.UINT8,
    np.dtype(np.int8): ElementType.INT8,
    np.dtype(np.int64): ElementType.INT64,
}


@dataclass(slots=True)
class Node:
    """One operation, with the names of what it takes and gives."""

    operation: str
    inputs: list[str]
    outputs: list[str]
    rest: bytes = b""
    """Name, domain and attributes, encoded."""

    def encoded(self) -> bytes:
        names = [_encoded(_NODE_INPUT, name.encode()) for name in self.inputs]
        names += [_encoded(_NODE_OUTPUT, name.encode()) for name in self.outputs]
        operation = _encoded(_NODE_OPERATION, self.operation.encode())
        return b"".join(names) + operation + self.rest


def cast_to(element: ElementType, source: str, result: str) -> Node:
    """A node that casts. An integer that is too large wraps."""
    of_type_int = 2
    attribute = _encoded(1, b"to") + _encoded_number(3, element) + _encoded_number(20, of_type_int)
    return Node("Cast", [source], [result], _encoded(_NODE_ATTRIBUTE, attribute))


@dataclass
class Network:
    """The graph of a model. `nodes` may be changed, and in any order: ONNX Runtime sorts them."""

    nodes: list[Node] = field(default_factory=list)
    _model: list[bytes | memoryview] = field(default_factory=list)
    _graph: list[bytes | memoryview] = field(default_factory=list)
    """All encoded fields but the nodes."""

    @classmethod
    def of(cls, model: bytes) -> Network:
        """The network in a file. Its weights are not copied."""
        network = cls()
        for number, content, whole in _fields(memoryview(model)):
            if number != _MODEL_GRAPH:
                network._model.append(whole)
                continue
            for part, inner, encoded in _fields(content):
                if part == _GRAPH_NODE:
                    network.nodes.append(_node(inner))
                else:
                    network._graph.append(encoded)
        return network

    @classmethod
    def empty(cls) -> Network:
        operators = _encoded(1, b"") + _encoded_number(2, _OPERATORS_VERSION)
        model = [
            _encoded_number(_MODEL_VERSION, _FORMAT_VERSION),
            _encoded(_MODEL_OPERATORS, operators),
        ]
        return cls([], [*model], [_encoded(_GRAPH_NAME, b"graph")])

    def part(
        self, inputs: Mapping[str, ElementType], outputs: Mapping[str, ElementType]
    ) -> Network:
        """The nodes that lead to `outputs`, with their weights. They get `inputs` from outside.

        Inputs of the whole network remain where they are needed.
        """
        makers = {name: node for node in self.nodes for name in node.outputs}
        needed: set[str] = set()
        missing = list(outputs)
        while missing:
            name = missing.pop()
            if name in needed:
                continue
            needed.add(name)
            if name not in inputs and name in makers:
                missing += makers[name].inputs
        made = needed - inputs.keys()
        nodes = [node for node in self.nodes if not made.isdisjoint(node.outputs)]
        kept = [field for field in self._graph if _is_needed(field, needed)]
        part = Network(nodes, [*self._model], kept)
        for name, element in inputs.items():
            part.add_input(name, element)
        for name, element in outputs.items():
            part.add_output(name, element)
        return part

    def add_input(
        self, name: str, element: ElementType, shape: Sequence[int] | None = None
    ) -> None:
        self._graph.append(_encoded(_GRAPH_INPUT, _value(name, element, shape)))

    def add_output(
        self, name: str, element: ElementType, shape: Sequence[int] | None = None
    ) -> None:
        self._graph.append(_encoded(_GRAPH_OUTPUT, _value(name, element, shape)))

    def add_constant(self, name: str, value: NDArray[np.generic]) -> None:
        sizes = b"".join(_encoded_number(1, size) for size in value.shape)
        element = _encoded_number(2, _ELEMENT_TYPES[value.dtype])
        tensor = sizes + element + _encoded(8, name.encode()) + _encoded(9, value.tobytes())
        self._graph.append(_encoded(_GRAPH_TENSOR, tensor))

    def to_bytes(self) -> bytes:
        nodes = (_encoded(_GRAPH_NODE, node.encoded()) for node in self.nodes)
        graph = [*self._graph, *nodes]
        head = _head(_MODEL_GRAPH, sum(map(len, graph)))
        return b"".join([*self._model, head, *graph])


def _is_needed(encoded: bytes | memoryview, needed: set[str]) -> bool:
    """Whether a field of a graph remains in a part of it."""
    number, content, _ = next(_fields(memoryview(encoded)))
    if number not in _NAMED:
        return number == _GRAPH_NAME
    name = next(value for field, value, _ in _fields(content) if field == _NAMED[number])
    return str(name, "utf-8") in needed


def _node(content: memoryview) -> Node:
    node, rest = Node("", [], []), list[memoryview]()
    for number, value, whole in _fields(content):
        if number == _NODE_INPUT:
            node.inputs.append(str(value, "utf-8"))
        elif number == _NODE_OUTPUT:
            node.outputs.append(str(value, "utf-8"))
        elif number == _NODE_OPERATION:
            node.operation = str(value, "utf-8")
        else:
            rest.append(whole)
    node.rest = b"".join(rest)
    return node


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Number and content of each field, and the whole of it. Numbers have no content."""
    at = 0
    while at < len(message):
        begin = at
        key, at = _number(message, at)
        length = _FIXED_BYTES.get(key & 7, 0)
        if key & 7 == _LENGTH:
            length, at = _number(message, at)
        elif key & 7 == _VARINT:
            _, at = _number(message, at)
        end = at + length
        yield key >> 3, message[at:end], message[begin:end]
        at = end


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """The varint at a position, and the position after it."""
    value = shift = 0
    while message[at] & 128:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1


def _value(name: str, element: ElementType, shape: Iterable[int] | None) -> bytes:
    """A `ValueInfoProto`; without a shape, of any."""
    tensor = _encoded_number(1, element)
    if shape is not None:
        sizes = (_encoded(1, _encoded_number(1, size)) for size in shape)
        tensor += _encoded(2, b"".join(sizes))
    return _encoded(1, name.encode()) + _encoded(2, _encoded(1, tensor))


def _encoded(number: int, content: bytes) -> bytes:
    return _head(number, len(content)) + content


def _encoded_number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _head(number: int, length: int) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(length)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
