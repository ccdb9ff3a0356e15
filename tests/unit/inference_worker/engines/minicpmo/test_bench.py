"""The unit bench runs and reports its environment."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import memory_table

ROOT = Path(__file__).parents[5]
BENCH = ROOT / "bench" / "gpu_duplex.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="takes minutes on a GPU")
def test_the_bench_runs_without_a_gpu() -> None:
    """Paced, and all at once for the stages."""
    flags = ["--sessions", "2", "--units", "1", "--paced", "--frames"]
    asked = [sys.executable, str(BENCH), *flags]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "No GPU here" in ran.stdout
    assert "| 2 | " in ran.stdout
    for stage in ("DecodeSpeech of 1", "EncodeImages", "Token2wav, a session's wait"):
        assert f"| {stage} | " in ran.stdout


def test_the_documented_table_of_cards_is_what_its_command_prints() -> None:
    assert "\n".join(memory_table.table()) in (ROOT / "docs" / "minicpmo.md").read_text()
