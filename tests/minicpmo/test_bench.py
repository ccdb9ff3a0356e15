"""The bench of units runs, and says what it ran on."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench" / "gpu_duplex.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="takes minutes on a GPU")
@pytest.mark.parametrize("paced", [[], ["--paced", "--frames"]])
def test_the_bench_runs_without_a_gpu(paced: list[str]) -> None:
    asked = [sys.executable, str(BENCH), "--sessions", "2", "--units", "1", *paced]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "No GPU here" in ran.stdout
    assert "| 2 | " in ran.stdout
    assert "| Utter of 1 | " in ran.stdout
    assert "| Token2wav, a session's wait | " in ran.stdout
    assert ("| See | " in ran.stdout) == bool(paced)
