"""Triton's compiler without a GPU: what would be launched on a fake one is compiled for a real kind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction, MockTensor

from support.minicpmo.fake_gpu import FakeGpu


class _Card:
    """A driver that knows which kind of GPU it has, and no more."""

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self._target


class Compiled:
    """The compiled programs by name; each is there once for every way it was specialised."""

    def __init__(self) -> None:
        self.programs: dict[str, dict[str, Any]] = {}

    @property
    def count(self) -> int:
        """How many there are in all."""
        return sum(len(ways) for ways in self.programs.values())

    def take(self, name: str, program: Any) -> None:
        """Note one."""
        self.programs.setdefault(name, {})[program.hash] = program


@contextmanager
def compiled_offline(gpu: FakeGpu, capability: int = 90) -> Iterator[Compiled]:
    """Launches within it compile for a GPU of `capability` (90: Hopper) and count on the fake one."""
    compile_only, compiled = JITFunction.run, Compiled()
    seen = set[JITFunction[Any]]()

    def run(program: JITFunction[Any], *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        assert not warmup
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        assert all(t.device.type == "cuda" and t.is_contiguous() for t in tensors)
        assert all(0 < side < 2**16 or n == 0 for n, side in enumerate(grid))
        gpu.launched += 1
        seen.add(program)
        named = [_Described(arg) if isinstance(arg, Tensor) else arg for arg in args]
        made = compile_only(program, *named, grid=grid, warmup=True, **options)
        compiled.take(program.__name__, made)

    with patch.object(JITFunction, "run", run), patch.object(driver, "_active", _Card(capability)):
        yield compiled
    for program in seen:
        program.device_caches.clear()


def stack_bytes(program: Any, folder: Path) -> int:
    """What a compiled program spills to memory, by the assembler's own account."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    binary = folder / f"{program.hash}.cubin"
    binary.write_bytes(program.asm["cubin"])
    told = subprocess.check_output([tool, "--dump-resource-usage", binary], text=True)
    return sum(map(int, re.findall(r"STACK:(\d+)", told)))


class _Described(MockTensor):
    """A tensor as the compiler sees one: its type, and whether its address is a round one."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.dtype, list(tensor.shape))
        self._address = tensor.storage_offset() * tensor.itemsize

    def data_ptr(self) -> int:
        return self._address
