"""The result of a load as JSON and as text for the terminal."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from antiphon.cli.common import plain_table, print_table
from antiphon.cli.load.plan import LATE_S, PERCENTILES, LoadSummary, UserKind, percentiles
from antiphon.cli.load.run import LoadResult
from antiphon.cli.load.usage import GENERATOR

Report = dict[str, Any]


def report_of(result: LoadResult, about: dict[str, Any]) -> Report:
    """All figures; `about` names the server and its engine."""
    plan, log = result.plan, result.log
    kinds = {
        str(kind): asdict(LoadSummary.of(one for one in result.requests if one.kind is kind))
        for kind in dict.fromkeys(plan.kinds)
    }
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
        "plan": asdict(plan),
        "machine": machine(),
        "simulated": log.simulated,
        "unserved": result.unserved,
        "opened_ms": percentiles(log.opened_ms),
        "kinds": kinds,
        "failures": dict(log.failures),
        **_costs(result),
    }


def _costs(result: LoadResult) -> Report:
    """CPU by process, in milliseconds per session and second; empty if it could not be measured."""
    plan = result.plan
    used = result.after.since(result.before)
    share = {name: s * 1000 / plan.seconds / plan.sessions for name, s in used.items()}
    server = sum(ms for name, ms in share.items() if name != GENERATOR)
    return {
        "cpu_ms_per_session_s": {name: round(ms, 3) for name, ms in share.items()},
        "server_cpu_ms_per_session_s": round(server, 3) if len(share) > 1 else None,
        "rss_mib": result.after.rss_mib,
    }


def machine() -> Report:
    """The computer that simulates the users."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cpus": os.cpu_count(),
        "cpu": model[1] if model else platform.machine(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def show(report: Report, console: Console) -> None:
    plan = report["plan"]
    engine = "  (simulated engine: times are those of a model)" if report["simulated"] else ""
    console.print(f"\n{plan['sessions']} sessions, {plan['seconds']:g} s measured{engine}\n")
    print_table(_latencies(report))
    for kind in report["kinds"]:
        console.print(
            f"  {kind}: {_MEANING[UserKind(kind)]}; late: over {LATE_S[UserKind(kind)]:g} s"
        )
    if report["unserved"]:
        console.print(
            f"  {report['unserved']} sessions were never served; all their requests are lost"
        )
    for failure, count in report["failures"].items():
        console.print(f"  {count} × {failure}", markup=False)
    console.print()
    _show_costs(report, console)


_MEANING = {
    UserKind.AUDIO: "from when a second of sound was due to its result",
    UserKind.OMNI: "from when a second of sound and its picture were due to their result",
    UserKind.HALF_DUPLEX: "from when the last word of a question was due to the answer's first piece",
    UserKind.CHAT: "from when a question was due to the answer's first piece",
}


def _latencies(report: Report) -> Table:
    columns = ("kind", "due", "lost", "late", *(f"{name} ms" for name in PERCENTILES))
    table = plain_table(*columns, "sent late p99")
    for kind, one in report["kinds"].items():
        counts = (str(one[name]) for name in ("due", "lost", "late"))
        times = [*(one["latency_ms"].get(name) for name in PERCENTILES)]
        times.append(one["sent_late_ms"].get("p99"))
        table.add_row(kind, *counts, *("nan" if ms is None else f"{ms:.1f}" for ms in times))
    return table


def _show_costs(report: Report, console: Console) -> None:
    if report["server_cpu_ms_per_session_s"] is None:
        console.print(
            "  the server's CPU was not measured: its processes are not visible from here"
        )
        return
    table = plain_table("process", "CPU ms per session-second", "resident MiB")
    for name, cpu in report["cpu_ms_per_session_s"].items():
        table.add_row(name, f"{cpu:.2f}", f"{report['rss_mib'].get(name, 0):.0f}")
    table.add_row("server, all", f"{report['server_cpu_ms_per_session_s']:.2f}", "")
    print_table(table)
