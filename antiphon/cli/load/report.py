"""The result of a load as JSON and as text for the terminal."""

import os
import platform
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from antiphon.cli.common import Row, print_table, rows_table
from antiphon.cli.load.plan import LATE_S, PERCENTILES, LoadSummary, UserKind, percentiles
from antiphon.cli.load.run import LoadResult
from antiphon.cli.stack.usage import GENERATOR
from antiphon.cli.terminal import Terminal

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
    cpus = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpus.read_text() if cpus.exists() else "")
    return {
        "cpus": os.cpu_count(),
        "cpu": model[1] if model else platform.machine(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def show(report: Report, console: Terminal) -> None:
    plan = report["plan"]
    engine = "  (simulated engine: times are those of a model)" if report["simulated"] else ""
    console.print(f"\n{plan['sessions']} sessions, {plan['seconds']:g} s measured{engine}\n")
    print_table(rows_table([_latencies(kind, one) for kind, one in report["kinds"].items()]))
    for kind in map(UserKind, report["kinds"]):
        console.print(f"  {kind}: {_MEANING[kind]}; late: over {LATE_S[kind]:g} s")
    if report["unserved"]:
        unserved = f"{report['unserved']} sessions were never served"
        console.print(f"  {unserved}; all their requests are lost")
    for failure, count in report["failures"].items():
        console.print(f"  {count} × {failure}")
    console.print()
    _show_costs(report, console)


_WHOLE_MS = 100

_MEANING = {
    UserKind.AUDIO: "from when a second of sound was due to its result",
    UserKind.OMNI: "from when a second of sound and its picture were due to their result",
    UserKind.HALF_DUPLEX: "from when the last word of a question was due to the answer's first piece",
    UserKind.LIVE: "from when the end of a second of sound was due to its answer, where the model spoke",
    UserKind.OPENAI: "from when the last word of a question was due to the answer's first sound",
    UserKind.CHAT: "from when a question was due to the answer's first piece",
}


def _latencies(kind: str, one: Report) -> Row:
    times = {_HEADERS.get(name, name): _ms(one["latency_ms"].get(name)) for name in PERCENTILES}
    counts = {name: one[name] for name in ("due", "lost", "late")}
    return {"kind": kind, **counts, **times, "sent late": _ms(one["sent_late_ms"].get("p99"))}


_HEADERS = {"p50": "p50 ms", "p99_9": "p99.9"}


def _ms(value: float | None) -> str:
    """Short, so that a row fits into 80 columns; the file has every digit."""
    if value is None:
        return "nan"
    return f"{value:.1f}" if value < _WHOLE_MS else f"{value:.0f}"


def _show_costs(report: Report, console: Terminal) -> None:
    if report["server_cpu_ms_per_session_s"] is None:
        reason = "its processes are not visible from here"
        console.print(f"  the server's CPU was not measured: {reason}")
        return
    used = report["cpu_ms_per_session_s"]
    costs = used | {"server, all": report["server_cpu_ms_per_session_s"]}
    rows = [
        {
            "process": name,
            "CPU ms per session-second": f"{cpu:.2f}",
            "resident MiB": report["rss_mib"].get(name),
        }
        for name, cpu in costs.items()
    ]
    print_table(rows_table(rows))
