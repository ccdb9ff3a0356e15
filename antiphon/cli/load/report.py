"""A load's outcome as JSON and as lines on a terminal."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from antiphon.cli.load.ledger import Moment, Summary, spread
from antiphon.cli.load.plan import LATE_S, Kind
from antiphon.cli.load.run import Outcome
from antiphon.cli.load.usage import GENERATOR
from antiphon.cli.tables import plain_table, print_table

Report = dict[str, Any]


def report_of(outcome: Outcome, about: dict[str, Any]) -> Report:
    """Everything that was measured; `about` names the server and how it was asked."""
    plan, ledger = outcome.plan, outcome.ledger
    kinds = {kind: _of_kind(outcome.moments, kind) for kind in dict.fromkeys(plan.kinds)}
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
        "plan": asdict(plan),
        "machine": machine(),
        "simulated": ledger.simulated,
        "unserved": outcome.unserved,
        "opened_ms": spread(ledger.opened_ms),
        "kinds": {str(kind): asdict(summary) for kind, summary in kinds.items()},
        "failures": dict(ledger.failures),
        **_costs(outcome),
    }


def _of_kind(moments: list[Moment], kind: Kind) -> Summary:
    return Summary.of(moment for moment in moments if moment.kind is kind)


def _costs(outcome: Outcome) -> Report:
    """CPU by process, in milliseconds for each session and second; empty where it was not to be seen."""
    plan = outcome.plan
    used = outcome.after.since(outcome.before)
    share = {name: s * 1000 / plan.seconds / plan.sessions for name, s in used.items()}
    server = sum(ms for name, ms in share.items() if name != GENERATOR)
    return {
        "cpu_ms_per_session_s": {name: round(ms, 3) for name, ms in share.items()},
        "server_cpu_ms_per_session_s": round(server, 3) if len(share) > 1 else None,
        "rss_mib": outcome.after.rss_mib,
    }


def machine() -> Report:
    """What figures depend on."""
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def show(report: Report, console: Console) -> None:
    """The figures that matter."""
    plan = report["plan"]
    engine = "  (simulated engine: times are those of a model)" if report["simulated"] else ""
    console.print(f"\n{plan['sessions']} sessions, {plan['seconds']:g} s measured{engine}\n")
    print_table(_latencies(report))
    for kind in report["kinds"]:
        console.print(f"  {kind}: {_MEANING[Kind(kind)]}; late: over {LATE_S[Kind(kind)]:g} s")
    if report["unserved"]:
        console.print(
            f"  {report['unserved']} sessions were never served; all they were due is lost"
        )
    for failure, count in report["failures"].items():
        console.print(f"  {count} × {failure}", markup=False)
    console.print()
    _show_costs(report, console)


_MEANING = {
    Kind.AUDIO: "from when a second of sound was due to its result",
    Kind.OMNI: "from when a second of sound and its picture were due to their result",
    Kind.HALF_DUPLEX: "from when the last word of a question was due to the answer's first piece",
    Kind.CHAT: "from when a question was due to the answer's first piece",
}


def _latencies(report: Report) -> Table:
    names = ("p50", "p90", "p99", "p99_9", "max")
    table = plain_table(
        "kind", "due", "lost", "late", *(f"{name} ms" for name in names), "sent late p99"
    )
    for kind, one in report["kinds"].items():
        times = (f"{one['latency_ms'].get(name, float('nan')):.1f}" for name in names)
        sent_late = f"{one['sent_late_ms'].get('p99', float('nan')):.1f}"
        counts = (str(one["due"]), str(one["lost"]), str(one["late"]))
        table.add_row(kind, *counts, *times, sent_late)
    return table


def _show_costs(report: Report, console: Console) -> None:
    if report["server_cpu_ms_per_session_s"] is None:
        console.print("  the server's processes are not ours to see: its CPU was not measured")
        return
    table = plain_table("process", "CPU ms per session-second", "resident MiB")
    for name, cpu in report["cpu_ms_per_session_s"].items():
        table.add_row(name, f"{cpu:.2f}", f"{report['rss_mib'].get(name, 0):.0f}")
    table.add_row("server, all", f"{report['server_cpu_ms_per_session_s']:.2f}", "")
    print_table(table)
