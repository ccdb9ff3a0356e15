"""Triton's compiler without a GPU: launches on a fake GPU are compiled for a real type of GPU."""

import math
import re
import subprocess
from collections import defaultdict
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
    """A driver that only knows the type of its GPU."""

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self._target


class Compiled:
    """The compiled programs by name, one per specialisation."""

    def __init__(self) -> None:
        self.programs: dict[str, dict[str, Any]] = {}
        self.launched: dict[str, list[int]] = defaultdict(list)
        """Programs of each launch."""

    @property
    def count(self) -> int:
        return sum(len(ways) for ways in self.programs.values())

    def take(self, name: str, program: Any) -> None:
        self.programs.setdefault(name, {})[program.hash] = program


@contextmanager
def compiled_offline(gpu: FakeGpu, capability: int = 90) -> Iterator[Compiled]:
    """Inside the context, launches compile for a GPU of `capability` (90: Hopper) and count on the fake one."""
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
        compiled.launched[program.__name__].append(math.prod(grid))

    with patch.object(JITFunction, "run", run), patch.object(driver, "_active", _Card(capability)):
        yield compiled
    for program in seen:
        program.device_caches.clear()


def stack_bytes(program: Any, folder: Path) -> int:
    """Bytes that a compiled program spills to memory, from the assembler's output."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    binary = folder / f"{program.hash}.cubin"
    binary.write_bytes(program.asm["cubin"])
    output = subprocess.check_output([tool, "--dump-resource-usage", binary], text=True)
    return sum(map(int, re.findall(r"STACK:(\d+)", output)))


class _Described(MockTensor):
    """A tensor as the compiler sees it: its type, and whether its address is aligned."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.dtype, list(tensor.shape))
        self._address = tensor.storage_offset() * tensor.itemsize

    def data_ptr(self) -> int:
        return self._address
