"""The Triton programs in Triton's interpreter, compared with torch's operations."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from support.minicpmo import triton_interpreter

# The interpreter takes seconds of CPU time, which a busy machine stretches.

EXACT, HALF = (torch.float32, 1e-6), (torch.float16, 0.001)
"""The interpreter has no products of bfloat16."""


@pytest.fixture(scope="module")
def interpreter() -> Iterator[ProcessPoolExecutor]:
    with triton_interpreter.interpreter() as pool:
        yield pool


@pytest.mark.parametrize(
    ("queries", "keys", "dim", "dtype", "bound"),
    [(4, 2, 32, *EXACT), (4, 1, 32, *HALF), (2, 2, 6, *EXACT)],
)
def test_attention(
    interpreter: ProcessPoolExecutor,
    queries: int,
    keys: int,
    dim: int,
    dtype: torch.dtype,
    bound: float,
) -> None:
    asked = interpreter.submit(triton_interpreter.of_attention, queries, keys, dim, dtype)
    assert asked.result() < bound


@pytest.mark.parametrize(("width", "dtype", "bound"), [(24, *HALF), (1100, *EXACT)])
def test_norm_and_gate(
    interpreter: ProcessPoolExecutor, width: int, dtype: torch.dtype, bound: float
) -> None:
    assert interpreter.submit(triton_interpreter.of_the_rest, width, dtype).result() < bound


@pytest.mark.parametrize(
    ("form", "inputs", "group", "dtype", "bound"),
    [
        ("int8", 256, 128, *EXACT),
        ("int4", 192, 64, *EXACT),
        ("int4", 256, 32, *HALF),
        ("int8", 192, 64, *HALF),
        ("fp8", 384, 384, *EXACT),
        ("fp8", 192, 192, *HALF),
    ],
)
def test_products_with_quantised_weights(
    interpreter: ProcessPoolExecutor,
    form: str,
    inputs: int,
    group: int,
    dtype: torch.dtype,
    bound: float,
) -> None:
    asked = interpreter.submit(triton_interpreter.of_a_product, form, inputs, group, dtype)
    assert asked.result() < bound


def test_both_decoders(interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(triton_interpreter.of_the_decoders).result() < 2e-6


@pytest.mark.parametrize("in_keys", [True, False])
def test_a_nan_reaches_the_output_of_its_row_only(
    interpreter: ProcessPoolExecutor, *, in_keys: bool
) -> None:
    """A session with a NaN must end, so a NaN must reach the output of its row."""
    finite = interpreter.submit(triton_interpreter.rows_with_a_nan, in_keys=in_keys).result()
    assert finite == [True, False, True]


@pytest.mark.parametrize(("spoilt", "kept"), [(False, "FusedKernels"), (True, "TorchKernels")])
def test_programs_with_other_results_are_not_used(
    interpreter: ProcessPoolExecutor, *, spoilt: bool, kept: str
) -> None:
    asked = interpreter.submit(triton_interpreter.kernels_after_check, spoilt=spoilt)
    assert asked.result() == [kept, kept]


def test_demanded_programs_that_fail_are_refused(
    interpreter: ProcessPoolExecutor,
) -> None:
    said = interpreter.submit(triton_interpreter.error_when_demanded).result()
    assert "kernels=triton does not work here" in said
    assert "kernels=torch does" in said
