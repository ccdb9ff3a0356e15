"""CUDA streams on a CPU: everything runs at once, and what no event or wait orders is an error.

Each stream has a vector clock (Mattern, 1989). An operation fails if it reads what another stream wrote, or
writes what another stream read or wrote, unless a wait orders it after that. Whatever the host has
waited for is before all later operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = {Tensor.tolist, Tensor.item, Tensor.cpu, Tensor.numpy}
Moment = tuple["OrderedStream", int]


class OrderedEvent:
    """Takes the place of torch.cuda.Event."""

    def __init__(self) -> None:
        self.clock = Counter[OrderedStream]()

    def record(self, stream: OrderedStream | None = None) -> None:
        self.clock = Counter((stream or OrderedStream.current).clock)

    def query(self) -> bool:
        """The work before it has ended, but the host does not rely on it."""
        return True

    def synchronize(self) -> None:
        OrderedStream.host |= self.clock


class OrderedStream:
    """Takes the place of torch.cuda.Stream. `left_out` names a kind of wait that does nothing."""

    current: OrderedStream
    host: Counter[OrderedStream]
    left_out: str | None
    kept: WeakKeyDictionary[Any, set[OrderedStream]]
    """By storage, the streams before whose work its memory is not reused."""

    def __init__(self, _device: object = None) -> None:
        self.clock = Counter[OrderedStream]()

    def wait_event(self, event: OrderedEvent) -> None:
        if self.left_out != "wait_event":
            self.clock |= event.clock

    def wait_stream(self, other: OrderedStream) -> None:
        if self.left_out != "wait_stream":
            self.clock |= other.clock

    def record_event(self) -> OrderedEvent:
        event = OrderedEvent()
        event.record(self)
        return event

    def synchronize(self) -> None:
        if self.left_out != "synchronize":
            OrderedStream.host |= self.clock

    def knows(self, moment: Moment) -> bool:
        stream, number = moment
        return self.clock[stream] >= number


class StreamOrder(TorchDispatchMode):
    """Checks the operations of this thread."""

    def __init__(self) -> None:
        super().__init__()
        self._written: WeakKeyDictionary[Any, Moment] = WeakKeyDictionary()
        self._read: WeakKeyDictionary[Any, dict[OrderedStream, int]] = WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        stream = OrderedStream.current
        stream.clock |= OrderedStream.host
        sources = {t.untyped_storage() for t in _tensors((args, given))}
        changed = {
            t.untyped_storage()
            for argument, value in zip(func._schema.arguments, args, strict=False)
            if argument.is_write
            for t in _tensors(value)
        }
        for storage in sources:
            self.check(storage, str(func))
        for storage in changed:
            for reader in self._read.get(storage, {}).items():
                assert stream.knows(reader), f"{func} overwrites what another stream reads"
        out = func(*args, **given)
        stream.clock[stream] += 1
        now = stream.clock[stream]
        for storage in sources:
            self._read.setdefault(storage, {})[stream] = now
        fresh = {t.untyped_storage() for t in _tensors(out)} - sources
        for storage in changed | fresh:
            self._written[storage] = stream, now
        return out

    def check(self, storage: Any, what: str) -> None:
        """Raise AssertionError if the current stream does not wait for who wrote `storage`."""
        written = self._written.get(storage)
        assert written is None or OrderedStream.current.knows(written), (
            f"{what} reads what another stream writes"
        )


class _HostReads(TorchFunctionMode):
    """A read of the host waits for the current stream only."""

    def __init__(self, order: StreamOrder) -> None:
        super().__init__()
        self._order = order

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in READS:
            stream = OrderedStream.current
            stream.clock |= OrderedStream.host
            self._order.check(args[0].untyped_storage(), func.__name__)
            OrderedStream.host |= stream.clock
        return func(*args, **(kwargs or {}))


@contextmanager
def _on(stream: OrderedStream | None) -> Iterator[None]:
    before = OrderedStream.current
    OrderedStream.current = stream or before
    try:
        yield
    finally:
        OrderedStream.current = before


def _keep(tensor: Tensor, stream: OrderedStream) -> None:
    OrderedStream.kept.setdefault(tensor.untyped_storage(), set()).add(stream)


@contextmanager
def ordered_streams(
    monkeypatch: pytest.MonkeyPatch, *, left_out: str | None = None
) -> Iterator[None]:
    """Inside the context, streams and events of torch are ordered ones."""
    OrderedStream.current, OrderedStream.host = OrderedStream(), Counter()
    OrderedStream.left_out, OrderedStream.kept = left_out, WeakKeyDictionary()
    stand_ins = {
        "Stream": OrderedStream,
        "Event": OrderedEvent,
        "current_stream": lambda _device=None: OrderedStream.current,
        "stream": _on,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(Tensor, "record_stream", _keep)
    order = StreamOrder()
    with order, _HostReads(order):
        yield


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
