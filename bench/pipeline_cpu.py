"""Measures the CPU time of each process of the pipeline, also on a machine that runs other programs.

    python bench/pipeline_cpu.py --sessions 200 --seconds 10 --rounds 3
    python bench/pipeline_cpu.py --against ../other-checkout
    python bench/pipeline_cpu.py --engine local --sessions 4 --seconds 30 --chunk-ms 1000 200

Each round runs `antiphon bench` of this checkout, and of another one if it is named, in turns. Users
speak half of the time. The same work costs more CPU time while other programs use the caches and the
cores. The load generator does the same work in each run, so normalised figures are multiplied by its
CPU time on the idle machine of docs/performance.md, divided by that in the run. It does more work for
shorter chunks, so `--chunk-ms` has no normalised figures. A run with late results is overloaded:
entries accumulate and cost less, so do not compare it. Merging follows the sessions and is not included.

Recordings are in memory: ext4 without a journal scans the inodes that were deleted in the last
minutes for each new file, so the recorder would pay for the files that other programs delete.
`--folder` names another place.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes import ROOT

_GENERATOR = "generator"
_IDLE_GENERATOR_MS = 0.45
_MEMORY = Path("/dev/shm")
_COMMAND = "from antiphon.cli.main import main; raise SystemExit(main())"


def run_bench(
    checkout: Path, sessions: int, seconds: float, folder: Path, extra: Sequence[str] = ()
) -> dict[str, Any]:
    """The report of one run, whose recordings are in `folder`."""
    with tempfile.TemporaryDirectory() as out:
        asked = (f"--sessions={sessions}", f"--seconds={seconds}", f"--out={out}")
        subprocess.run(
            (sys.executable, "-c", _COMMAND, "bench", *asked, *extra),
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "TMPDIR": str(folder)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        report: dict[str, Any] = json.loads((Path(out) / "report.json").read_bytes())
        return report


def show(name: str, reports: list[dict[str, Any]], *, normalised: bool) -> None:
    """The median of the runs, as measured and if asked also normalised."""
    print(f"\n{name}: CPU-ms per session-second, median of {len(reports)}\n")
    print(f"{'':14} measured" + ("  normalised  normalised, each run" if normalised else ""))
    runs: list[dict[str, float]] = [
        {**one["cpu_ms_per_session_s"], "server, all": one["server_cpu_ms_per_session_s"]}
        for one in reports
    ]
    for process in runs[0]:
        measured = statistics.median(run[process] for run in runs)
        line = f"{process:14} {measured:8.2f}"
        if normalised:
            each = [run[process] * _IDLE_GENERATOR_MS / run[_GENERATOR] for run in runs]
            shown = " ".join(f"{value:.2f}" for value in each)
            line += f"  {statistics.median(each):10.2f}  {shown}"
        print(line)
    for figure in ("lost", "late"):
        print(f"{figure:14} " + " ".join(str(one["kinds"]["audio"][figure]) for one in reports))


def main() -> None:
    """Measure in turns, and print a table for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    compared = parser.add_mutually_exclusive_group()
    compared.add_argument("--against", type=Path, help="another checkout, measured in turns")
    compared.add_argument("--chunk-ms", type=int, nargs="+", help="of this checkout, in turns")
    anywhere = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
    parser.add_argument("--engine", default="simulated")
    parser.add_argument("--folder", type=Path, default=anywhere, help="where recordings are")
    options = parser.parse_args()
    folder = options.folder.resolve()
    checkouts = [ROOT, options.against.resolve()] if options.against else [ROOT]
    engine = ["--engine", options.engine]
    runs = {str(checkout): (checkout, engine) for checkout in checkouts}
    if options.chunk_ms:
        lengths = [str(length) for length in options.chunk_ms]
        runs = {f"{it} ms": (ROOT, [*engine, "--chunk-ms", it]) for it in lengths}
    reports: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for number in range(options.rounds):
        for name in list(runs)[:: -1 if number % 2 else 1]:
            checkout, extra = runs[name]
            report = run_bench(checkout, options.sessions, options.seconds, folder, extra)
            reports[name].append(report)
    for name, found in reports.items():
        show(name, found, normalised=not options.chunk_ms)


if __name__ == "__main__":
    main()
