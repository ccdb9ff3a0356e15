"""The unit bench runs, says what it measured, and its report has a table and a plot of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from argparse import Namespace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet
from xml.etree import ElementTree as ET

import pytest
import torch

import gpu_duplex
import memory_table
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from duplex_callers import TURN_UNITS, Script, due_times
from gpu_duplex import WARM_UP_UNITS, Bench, Crowd, units_of
from gpu_report import plot, table_row

ROOT = Path(__file__).parents[5]
FIRST_GPU = ROOT / "bench" / "first_gpu.sh"


@pytest.mark.skipif(torch.cuda.is_available(), reason="takes minutes on a GPU")
def test_the_bench_and_its_report_run_without_a_gpu(tmp_path: Path) -> None:
    """The second call of `first_gpu.sh`: paced units of one session, and of two."""
    short = {"sessions": "1,2", "units": 1, "tokens": 2, "context": 512, "voice-seconds": 1}
    paths = {"FIRST_GPU_FOLDER": str(tmp_path / "empty"), "OUT": str(tmp_path)}
    ran = subprocess.run(
        [FIRST_GPU, "2", "--frames", *(f"--{name}={value}" for name, value in short.items())],
        env={**os.environ, **paths, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "No GPU here" in ran.stdout
    for stage in ("DecodeSpeech", "EncodeImages", "Token2wav, wait of a session"):
        assert f"| {stage} | " in ran.stdout
    result = json.loads((tmp_path / "paced.json").read_text())
    assert [row["sessions"] for row in result["rows"]] == [1, 2]
    for row in result["rows"]:
        assert row["listen"]["units"] > 0
        assert row["speak"]["units"] > 0
        assert table_row(result, row) in (tmp_path / "table.md").read_text()
    assert ET.parse(tmp_path / "latency.svg").getroot().get("viewBox")


def test_packages_for_another_python_are_named(tmp_path: Path) -> None:
    (tmp_path / "python-version").write_text("2.7\n")
    ran = subprocess.run(
        [FIRST_GPU, "2"],
        env={**os.environ, "FIRST_GPU_FOLDER": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    here = ".".join(map(str, sys.version_info[:2]))
    assert ran.returncode == 1
    assert f"are for Python 2.7, but {sys.executable} is {here}" in ran.stderr
    assert f"GPU_PYTHON={here} bench/first_gpu.sh prepare" in ran.stderr


def script(tokenizer: Tokenizer, seed: int, *, speaking: float) -> Script:
    return Script(tokenizer.ids, range(9, 94), speaking, 10, random.Random(seed))


@pytest.mark.parametrize("speaking", [0.25, 0.5, 1.0])
def test_a_script_speaks_its_share_in_whole_turns(tokenizer: Tokenizer, speaking: float) -> None:
    ids = tokenizer.ids
    for seed in range(5):
        said = script(tokenizer, seed, speaking=speaking)
        units = [list(said.next_unit()) for _ in range(80)]
        spoken = [unit for unit in units if unit != [ids.listen]]
        assert len(spoken) == pytest.approx(80 * speaking, abs=TURN_UNITS)
        words = [token for unit in spoken for token in unit[:9]]
        assert len(set(words)) > 60
        for before, after in pairwise(units):
            if after == [ids.listen] and before != after:
                assert ids.turn_eos in before  # an open turn would continue instead of listening


@pytest.mark.parametrize("sessions", [1, 4, 8, 16, 24, 32, 48, 64])
@pytest.mark.parametrize("speaking", [0.0, 0.25, 0.5, 1.0])
def test_every_percentile_has_enough_units(
    tokenizer: Tokenizer, sessions: int, speaking: float
) -> None:
    units = units_of(sessions, Namespace(units=200, speaking=speaking))
    counted = []
    for seed in range(sessions):
        said = script(tokenizer, seed, speaking=speaking)
        counted += [len(said.next_unit()) > 1 for _ in range(units)][WARM_UP_UNITS:]
    assert speaking == 0 or sum(counted) >= 200
    assert speaking == 1 or counted.count(False) >= 200


class SmallCrowd(Crowd):
    """Measures nothing; knows how many others exist when it is made."""

    existing: ClassVar[WeakSet[SmallCrowd]] = WeakSet()

    def __init__(self, bench: Bench, options: EngineOptions) -> None:
        self.others = len(self.existing)
        self.existing.add(self)
        self.engine = BytesIO()  # only to be closed

    def prepare(self) -> None: ...

    def measure(self, count: int) -> dict[str, Any]:
        return {"sessions": count, "others": self.others}


def test_an_engine_is_gone_before_the_next_one_takes_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench.__new__(Bench)
    bench.on_gpu = False
    large, small = (EngineOptions(slots=8, context_tokens=tokens) for tokens in (512, 256))
    bench.options = {1: large, 4: large, 8: small, 16: None}
    monkeypatch.setattr(gpu_duplex, "Crowd", SmallCrowd)
    assert list(bench.run()) == [
        {"sessions": 1, "others": 0},
        {"sessions": 4, "others": 0},
        {"sessions": 8, "others": 0},
        {"sessions": 16, "fits": False},
    ]


def test_units_are_due_a_second_apart_at_a_phase_of_their_own() -> None:
    source = random.Random(0)
    first, second = (list(due_times(50, jitter_s=0.06, source=source)) for _ in "12")
    assert first[0] % 1 != pytest.approx(second[0] % 1, abs=0.06)
    for moments in (first, second):
        gaps = [after - before for before, after in pairwise(moments)]
        assert min(gaps) == pytest.approx(1, abs=0.06)
        assert max(gaps) == pytest.approx(1, abs=0.06)
        assert len({round(gap, 6) for gap in gaps}) > 40


def test_the_report_has_a_row_and_a_point_for_each_number_of_sessions() -> None:
    def row(sessions: int, speak: float) -> dict[str, object]:
        times = {"units": 200, "p50": speak / 2, "p90": speak, "p99": speak, "max": speak}
        shares = {"missed_per_1000": 3.2, "graphs": 0.98, "vram_bytes": 2**35, "context": 8192}
        return {"sessions": sessions, "fits": True, "listen": None, "speak": times, **shares}

    result = {
        "date": "2026-11-22",
        "card": "A <card>",
        "sizes": "real",
        "arguments": {"paced": True, "speaking": 1.0},
        "rows": [row(1, 150.0), row(32, 9000.0), {"sessions": 64, "fits": False}],
    }
    lines = [table_row(result, each) for each in result["rows"]]
    assert lines[1] == (
        "| 2026-11-22 | A <card> | paced | 100% | 32 | – | 4500 / 9000 | 3 | 8192 | 98% | 32.0 "
        "| – |"
    )
    result["arguments"] |= {"quantize": "fp8", "one_stream": True, "float32": False}  # type: ignore[operator]
    assert table_row(result, row(1, 9.0)).endswith("| fp8 one_stream |")
    result["arguments"] |= {"vocoder_graphs": 0}  # type: ignore[operator]
    assert table_row(result, row(1, 9.0)).endswith("| fp8 one_stream vocoder_graphs=0 |")
    assert "| 64 | does not fit |" in lines[2]
    assert len({line.count("|") for line in lines}) == 1
    drawn = ET.fromstring(plot(result))
    kinds = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert kinds.count("circle") == 4
    texts = {element.text for element in drawn.iter() if element.text}
    assert {"SPEAK p99", "1", "32", "3"} <= texts
    assert not {"LISTEN p99", "64"} & texts


def test_the_documented_table_of_cards_is_what_its_command_prints() -> None:
    assert "\n".join(memory_table.table()) in (ROOT / "docs" / "minicpmo.md").read_text()
