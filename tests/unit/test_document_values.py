"""The documents have the codes, limits and values of the code."""

import re
from collections import defaultdict
from collections.abc import Iterator
from types import UnionType
from typing import get_args

import pytest
from fastapi.routing import APIRoute
from msgspec import structs
from pydantic import AliasChoices, BaseModel

from antiphon.broker.errors import BrokerUnavailable, QueueFull, SessionExists, StoreFull
from antiphon.broker.settings import CONFIG_STATUS
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
from antiphon.edge.routes import admin, recordings
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.chat import (
    ChatRequest,
    ChatServerMessage,
)
from antiphon.shared_schemas.messages.duplex import (
    DuplexClientMessage,
    DuplexServerMessage,
)
from antiphon.shared_schemas.messages.half_duplex import (
    HalfDuplexClientMessage,
    HalfDuplexServerMessage,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ClientMessage, ServerMessage
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
    return set(
        re.findall(
            r'(?:\.report\(|rejected\.labels\(|counted_as(?:: str)? ?= ?|_cut_off\("[\w ]+", )"(\w+)"',
            source,
        )
    )


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


def test_the_routes_of_administrators_are_those_of_the_table() -> None:
    text = section((ROOT / "docs" / "security.md").read_text(), "Admin token")
    rows = "".join(line for line in text.splitlines() if line.startswith("| "))
    named = re.findall(r"`(GET|PUT|POST|DELETE) (/[\w/{}]+)`", rows)
    by_id_of_session = ("GET", "/api/sessions/{session_id}")
    guarded = {
        (method, route.path)
        for router in (admin.admin_router, recordings.admin_router)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert set(named) - {by_id_of_session} == guarded


SERVICES = ("antiphon", "broker", "edge", "inference_worker", "recorder_service", "cleanup_job")
LOGGED = re.compile(r"log(?:ger\(\))?\.(warning|error|exception|critical)\(\s*f?\"([\w{}]+)\"")


def test_every_error_in_the_logs_is_in_the_table() -> None:
    logged = defaultdict(set)
    for service in SERVICES:
        for path in (ROOT / service).rglob("*.py"):
            for level, event in LOGGED.findall(path.read_text()):
                logged[level].add(event)
    assert logged["critical"] == {"{name}_cannot_start", "device_lost"}
    starts = {f"{name}_cannot_start" for name in ("edge", "worker", "recorder", "cleanup")}
    serious = logged["error"] | logged["exception"] | starts | {"device_lost"}
    documented = first_cells(section(OPERATIONS, "Logs")) - {"event"}
    assert serious <= documented
    assert documented - serious <= logged["warning"]


def test_the_exit_statuses_are_those_of_the_code() -> None:
    statuses = re.findall(r"^\| (\d+) \|", section(OPERATIONS, "Exit status"), re.MULTILINE)
    device = ROOT / "inference_worker" / "engines" / "minicpmo" / "device.py"  # imports torch
    [device_lost] = re.findall(r"^DEVICE_LOST = (\d+)$", device.read_text(), re.MULTILINE)
    known = [0, 1, 2, int(device_lost), CONFIG_STATUS, INTERRUPTED]
    assert list(map(int, statuses)) == known


def test_the_messages_of_the_troubleshooting_page_are_shown() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    texts = [text for cell in cells for text in re.findall(r'"([^"]+)"', cell)]
    texts.remove("externally-managed-environment")  # of pip
    files = [path for name in SERVICES for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / "web" / "src" / "i18n" / "en.ts"]
    files += [ROOT / "shared_schemas" / name for name in ("states.py", "sound_decoder.py")]
    source = "".join(path.read_text() for path in files)
    shown = re.sub(r'"\s+f?"', "", source)  # literals over several lines
    missing = [part for text in texts for part in re.split(" ?… ?", text) if part not in shown]
    assert len(texts) > 10
    assert missing == []


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Path and default of each field of a message, with those of the objects in it."""
    for name, field in model.model_fields.items():
        kinds = (field.annotation,)
        if isinstance(field.annotation, UnionType):
            kinds = get_args(field.annotation)
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not models:
            yield prefix + name, field.default
        for inner in models:
            yield from fields(inner, f"{prefix}{name}.")


def shown_default(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None | "":
            return "none"
        case float():
            return f"{value:g}"
    return str(value)


@pytest.mark.parametrize(
    ("heading", "models"),
    [
        ("Settings of full duplex", (DuplexConfig,)),
        ("Settings of half duplex and chat", (HalfDuplexConfig, ChatRequest)),
    ],
)
def test_the_settings_of_conversations_are_those_of_the_messages(
    heading: str, models: tuple[type[BaseModel], ...]
) -> None:
    table = section((ROOT / "docs" / "protocols.md").read_text(), heading)
    documented = {}
    for names, defaults in re.findall(r"^\| (`.+?) \| (.+?) \|", table, re.MULTILINE):
        values = re.sub(r"`|\.0(?!\d)", "", defaults).split(", ")
        documented |= dict(zip(re.findall(r"`([\w.]+)`", names), values, strict=True))
    known = dict(pair for model in reversed(models) for pair in fields(model))
    explained = {"messages", "generation.do_sample"}
    assert documented == {
        name: shown_default(default) for name, default in known.items() if name not in explained
    }


QUEUE = {"queued", "queue_update", "queue_done", "error", "resumed", "notice", "progress"}
"""Messages that other sections describe."""


def message_fields(message: type[ClientMessage | ServerMessage]) -> tuple[str, set[str]]:
    """Type of a message, and the names of its fields that no option adds."""
    if issubclass(message, ServerMessage):
        options = {field.name for field in structs.fields(ServerMessage)}
        options |= {"timing", "user_text", "goodbye"}
        return message.type, {field.name for field in structs.fields(message)} - options
    names: set[str] = set()
    for name, field in message.model_fields.items():
        aliases = field.validation_alias
        names |= (
            {str(one) for one in aliases.choices} if isinstance(aliases, AliasChoices) else {name}
        )
    [kind] = get_args(message.model_fields["type"].annotation)
    return kind, names - {"type"}


@pytest.mark.parametrize(
    ("heading", "messages"),
    [
        ("Fields of full duplex", DuplexClientMessage | DuplexServerMessage),
        ("Fields of half duplex", HalfDuplexClientMessage | HalfDuplexServerMessage),
        ("Fields of chat", ChatServerMessage),
    ],
)
def test_the_fields_of_messages_are_in_the_tables(heading: str, messages: UnionType) -> None:
    table = section((ROOT / "docs" / "protocols.md").read_text(), heading)
    rows = {
        kind: set(re.findall(r"`(\w+)`", texts))
        for kinds, texts in re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
        for kind in re.findall(r"`(\w+)`", kinds)
    }
    expected: dict[str, set[str]] = {}
    for message in get_args(messages):
        kind, names = message_fields(message)
        if kind not in QUEUE:
            expected[kind] = expected.get(kind, set()) | names
    rows.pop("messages", None)
    assert rows.keys() == expected.keys()
    for kind, names in expected.items():
        assert names <= rows[kind], kind
