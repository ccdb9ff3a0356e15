"""The unit bench runs, says what it measured, and its report has a table and a plot of it."""

import json
import math
import os
import random
import subprocess
import sys
import tarfile
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
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, Quantization
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from duplex_callers import TURN_UNITS, Script, due_times
from gpu_duplex import WARM_UP_UNITS, Bench, Crowd, not_measured, units_of
from gpu_report import costs, plot, table_row
from random_model import config_of, random_network
from roofline import Stage, stages
from simulated_device import Cost

ROOT = Path(__file__).parents[5]
FIRST_GPU = ROOT / "bench" / "first_gpu.sh"


def first_gpu(
    *arguments: str, folder: Path, **environment: object
) -> subprocess.CompletedProcess[str]:
    given = {"FIRST_GPU_FOLDER": folder, "PYTHON": sys.executable, **environment}
    return subprocess.run(
        [FIRST_GPU, *arguments],
        env=os.environ | {name: str(value) for name, value in given.items()},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="takes minutes on a GPU")
def test_the_bench_and_its_report_run_without_a_gpu(tmp_path: Path) -> None:
    """The second call of `first_gpu.sh`: paced units of one session, and of two."""
    short = {"sessions": "1,2", "units": 1, "tokens": 2, "context": 512, "voice-seconds": 1}
    options = ("--frames", *(f"--{name}={value}" for name, value in short.items()))
    ran = first_gpu("2", *options, folder=tmp_path / "empty", OUT=tmp_path, OMP_NUM_THREADS=1)
    assert ran.returncode == 0, ran.stderr
    assert "No GPU here" in ran.stdout
    for stage in ("DecodeSpeech", "EncodeImages", "Token2wav, wait of a session"):
        assert f"| {stage} | " in ran.stdout
    assert (tmp_path / "call_2.txt").read_text() == ran.stdout
    assert "Token2wav" in json.loads((tmp_path / "costs.json").read_text())
    result = json.loads((tmp_path / "paced.json").read_text())
    assert [row["sessions"] for row in result["rows"]] == [1, 2]
    for row in result["rows"]:
        assert row["listen"]["units"] > 0
        assert row["speak"]["units"] > 0
        assert table_row(result, row) in (tmp_path / "table.md").read_text()
    assert ET.parse(tmp_path / "latency.svg").getroot().get("viewBox")


def test_packages_for_another_python_are_named(tmp_path: Path) -> None:
    (tmp_path / "python-version").write_text("2.7\n")
    ran = first_gpu("2", folder=tmp_path)
    here = ".".join(map(str, sys.version_info[:2]))
    assert ran.returncode == 1
    assert f"are for Python 2.7, but {sys.executable} is {here}" in ran.stderr
    assert f"GPU_PYTHON={here} bench/first_gpu.sh prepare" in ran.stderr


SCRIPTED_PYTHON = """#!{python}
import re, sys
called = " ".join(sys.argv[1:])
if "pytest.main" in called or "gpu_duplex" in called and re.search({fails!r}, called):
    sys.exit("this does not work here")
if "gpu_duplex" in called:
    open({calls!r}, "a").write(called + "\\n")
    open(sys.argv[sys.argv.index("--json") + 1], "w").write('{{"p50": 1}}')
if "gpu_report" in called:
    print("| a table |")
"""


def run_with_failures(
    tmp_path: Path, call: str, fails: str
) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """A call of `first_gpu.sh` in which the tests fail, and each bench whose arguments match `fails`;
    the arguments of the others.
    """
    python, calls = tmp_path / "python", tmp_path / "calls"
    text = SCRIPTED_PYTHON.format(python=sys.executable, fails=fails, calls=str(calls))
    python.write_text(text)
    python.chmod(0o755)
    ran = first_gpu(call, folder=tmp_path / "empty", OUT=tmp_path / "out", PYTHON=python)
    return calls.read_text().splitlines(), ran


def test_a_call_measures_with_less_of_the_engine_if_all_of_it_fails(tmp_path: Path) -> None:
    calls, ran = run_with_failures(tmp_path, "1", "^(?!.*--eager)")
    assert ran.returncode == 0, ran.stdout
    assert "test_gpu.py failed" in ran.stdout
    assert ["--eager" in call for call in calls] == [True, True]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "call_1.txt",
        "all_speak.json",
        "in_step.json",
    }


def test_a_comparison_that_fails_leaves_the_others(tmp_path: Path) -> None:
    calls, ran = run_with_failures(tmp_path, "3", "fp8")
    assert ran.returncode == 0, ran.stdout
    assert "fp8 ended with status 1" in ran.stdout
    assert len(calls) == 8
    with tarfile.open(tmp_path / "out" / "compare.tar.gz") as archive:
        names = {Path(name).stem for name in archive.getnames() if name.endswith(".json")}
    assert names == {
        "default",
        "causal",
        "pictures",
        "one_stream",
        "vocoder_eager",
        "int8",
        "float32",
        "vocoder_16",
    }
    assert (tmp_path / "out" / "compare.md").read_text() == "| a table |\n"


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

    existing: ClassVar["WeakSet[SmallCrowd]"] = WeakSet()
    fails_at: ClassVar[int | None] = None

    def __init__(self, bench: Bench, options: EngineOptions) -> None:
        self.others = len(self.existing)
        self.existing.add(self)
        self.engine = BytesIO()  # only to be closed

    def prepare(self) -> None: ...

    def measure(self, count: int) -> dict[str, Any]:
        if count == self.fails_at:
            raise RuntimeError("out of memory")
        return {"sessions": count, "others": self.others}


@pytest.fixture
def small_bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench.__new__(Bench)
    bench.on_gpu = False
    bench.args = Namespace(paced=True, seconds=math.inf, units=200, speaking=0.5)
    large, small = (EngineOptions(slots=8, context_tokens=tokens) for tokens in (512, 256))
    bench.options = {1: large, 4: large, 8: small, 16: None}
    monkeypatch.setattr(gpu_duplex, "Crowd", SmallCrowd)
    return bench


def test_an_engine_is_gone_before_the_next_one_takes_memory(
    small_bench: Bench,
) -> None:
    assert list(small_bench.run()) == [
        {"sessions": 1, "others": 0},
        {"sessions": 4, "others": 0},
        {"sessions": 8, "others": 0},
        {"sessions": 16, "fits": False, "why": "does not fit", "error": ""},
    ]


def test_rows_that_fail_leave_the_others(
    small_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmallCrowd, "fails_at", 4)
    first, failed, third, _ = small_bench.run()
    assert (first["sessions"], third) == (1, {"sessions": 8, "others": 0})
    assert (failed["why"], failed["error"]) == ("RuntimeError", "out of memory")
    small_bench.args.seconds = 0
    assert [row["why"] for row in small_bench.run()] == [*["no time left"] * 3, "does not fit"]


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
        "rows": [row(1, 150.0), row(32, 9000.0), not_measured(64, "does not fit")],
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


def test_the_report_has_the_costs_of_the_simulation() -> None:
    def row(sessions: int) -> dict[str, object]:
        medians = {
            "Feed": 6.0 + 0.02 * sessions,
            "SampleToken": 1.0 + 0.02 * sessions,
            "DecodeCodes": 4.0,
            "Token2wav, wait of a session": 5.0 + 5.0 * sessions,
            "EncodeImages": 9.0,
        }
        stages = {name: {"median": value} for name, value in medians.items()}
        return {"sessions": sessions, "fits": True, "codes_per_step": 5, "stages_ms": stages}

    results = [{"rows": [row(1), row(32)]}, {"rows": [row(8), not_measured(64, "does not fit")]}]
    assert costs(results) == {
        "Feed": pytest.approx({"base": 5.0, "per_session": 0.0}),
        "SampleToken": pytest.approx({"base": 1.0, "per_session": 0.02}),
        "DecodeCodes": pytest.approx({"base": 0.8, "per_session": 0.0}),
        "Token2wav": pytest.approx({"base": 5.0, "per_session": 5.0}),
        "EncodeImages": pytest.approx({"base": 9.0, "per_session": 0.0}),
        "Host": {"per_session": 0.05},
        "ReadCache": {},
    }
    assert costs([{"rows": [row(32)]}])["SampleToken"] == pytest.approx(
        {"base": 1.64, "per_session": 0.0}
    )
    for cost in costs(results).values():
        Cost(**cost)


def test_the_documented_table_of_cards_is_what_its_command_prints() -> None:
    assert "\n".join(memory_table.table()) in (ROOT / "docs" / "gpu.md").read_text()


def stages_of(network: MiniCPMO, tokens: int = 19) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages(network, text=100, tokens=tokens)}


def test_the_lower_bound_is_of_as_many_tokens_as_were_measured() -> None:
    network = random_network(config_of("tiny"), torch.device("cpu"), "torch")
    few, many = stages_of(network, 7), stages_of(network, 19)
    assert (few["decode"].passes, few["decode"].tokens) == (7, 7)
    assert many["speech"].tokens - few["speech"].tokens == 12
    assert few["prefill"] == many["prefill"]


@pytest.mark.parametrize("quantize", ["int8", "fp8"])
def test_the_lower_bound_reads_quantised_weights(quantize: Quantization) -> None:
    config, device = config_of("tiny"), torch.device("cpu")
    plain = stages_of(random_network(config, device, "torch"))
    packed = stages_of(random_network(config, device, "torch", quantize))
    for name in ("prefill", "decode", "close"):
        assert packed[name].work(1) == plain[name].work(1)
        assert 4 * plain[name].weights.values == plain[name].weights.bytes
        # A byte for most values instead of four, and their scales.
        assert 0.25 < packed[name].weights.bytes / plain[name].weights.bytes < 0.4
    assert packed["speech"] == plain["speech"]
