"""The documents for operators have the codes and values of the code."""

from __future__ import annotations

import re

from antiphon.broker.errors import BrokerUnavailable, QueueFull, SessionExists, StoreFull
from antiphon.edge.errors import (
    SHUTDOWN,
    BudgetExceeded,
    Draining,
    NotJson,
    PageDisabled,
    TooManyConnections,
    explain,
    explain_end,
)
from antiphon.edge.metrics import EdgeMetrics
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.states import EndReason
from support.dashboards import ROOT, watched

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def first_cells(text: str) -> set[str]:
    """The code in the first cells of a table."""
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_error_code_has_a_row_with_the_close_code_that_the_edge_sends() -> None:
    table = section((ROOT / "docs" / "protocols.md").read_text(), "Error codes")
    assert first_cells(table) == {"code", *ErrorCode}
    documented = {
        code: close
        for codes, close in re.findall(r"^\| (`.+?) \| .* \|([^|]*)\|[^|]*\|$", table, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", codes)
    }
    expected = (QueueFull(9), StoreFull(0.9), SessionExists("adx_1"), NotJson(), Draining())
    limited = (TooManyConnections(), BudgetExceeded(), PageDisabled("chat"), BrokerUnavailable())
    for fault in (*map(explain, (*expected, *limited)), *map(explain_end, EndReason), SHUTDOWN):
        assert fault.close is not None
        assert str(int(fault.close)) in documented[fault.message.code], fault.message.code


def counted_reasons() -> set[str]:
    """Reasons of rejections that are no codes of errors."""
    source = "".join(path.read_text() for path in (ROOT / "edge").rglob("*.py"))
    return set(re.findall(r'(?:\.report\(|_cut_off\("[\w ]+", )"(\w+)"', source))


def test_reasons_of_rejections_exist() -> None:
    counter = EdgeMetrics("edge-1").rejected
    at_zero = {sample.labels["reason"] for sample in next(iter(counter.collect())).samples}
    watched_ones = set(re.findall(r'rejections_total\{reason="(\w+)"', " ".join(watched())))
    documented = first_cells(section(OPERATIONS, "Clients are turned away"))
    assert documented - set(ErrorCode) <= counted_reasons()
    assert counted_reasons() | at_zero <= documented
    assert watched_ones <= at_zero


def test_every_variable_of_the_compose_file_is_in_the_table_with_its_default() -> None:
    """A line of antiphon.env does not change these, so operators have to find them."""
    compose = (ROOT / "docker-compose.yml").read_text()
    found = re.findall(r"\$\{(ANTIPHON_\w+):-([^}]*)\}", compose)
    defaults = {name: default for name, default in found if default}
    table = section((ROOT / "docs" / "deployment.md").read_text(), "Settings")
    rows = re.findall(r"^\| (`ANTIPHON_.+?) \| (.+?) \|", table, re.MULTILINE)
    documented = {
        name: default
        for names, values in rows
        for name, default in zip(
            re.findall(r"`(\w+)`", names), values.replace("`", "").split(", "), strict=True
        )
    }
    assert {name: documented.get(name, "").partition(": ")[0] for name in defaults} == defaults
