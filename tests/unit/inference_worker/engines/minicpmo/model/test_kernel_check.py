"""Which kernels a worker selects, and what it reports if they are missing."""

import pytest
import torch
from structlog.testing import capture_logs

from antiphon.inference_worker.engines.minicpmo.checkup import examine
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, KernelChoice
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import use_triton
from antiphon.inference_worker.engines.minicpmo.model.load import load_network
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import FindingStatus
from support.minicpmo.golden_set import CHECKPOINT

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


def test_a_cpu_uses_torchs_operations() -> None:
    assert not use_triton("auto", CPU)
    assert not use_triton("torch", GPU)


def test_demanded_kernels_that_are_missing_are_refused() -> None:
    options = EngineOptions(device="cpu", kernels="triton")
    with pytest.raises(EngineLoadError, match=r"a GPU, not cpu; kernels=torch does without"):
        load_network(CHECKPOINT, options, lambda _line: None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_driver_it_falls_back_and_logs_it() -> None:
    """As on a GPU machine without a compiler: Triton's driver raises with the reason."""
    with capture_logs() as logged:
        assert not use_triton("auto", GPU)
    [line] = logged
    assert "python3-dev" in line["lacks"]
    with pytest.raises(EngineLoadError, match="kernels=triton needs a C compiler"):
        use_triton("triton", GPU)


def test_the_checkup_agrees_with_the_worker() -> None:
    """ "auto" is fine on a CPU; "triton" fails the checkup, as a worker would not start."""
    choices: list[KernelChoice] = ["auto", "torch", "triton"]
    verdicts = []
    for kernels in choices:
        findings = examine(CHECKPOINT, EngineOptions(device="cpu", kernels=kernels))
        verdicts += [each.verdict for each in findings if each.about == "kernels"]
    assert verdicts == [FindingStatus.OK, FindingStatus.OK, FindingStatus.FAILURE]
