"""The import rules of the code, checked by reading the source of every module."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.import_graph import cycles

ROOT = Path(__file__).parents[2]
SERVICES = frozenset({"edge", "inference_worker", "recorder_service", "cleanup_job"})
FOUNDATION = frozenset({"broker", "shared_schemas"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    "shared_schemas": frozenset(),
    "broker": frozenset({"shared_schemas"}),
    **dict.fromkeys(SERVICES, FOUNDATION),
    "client": frozenset({"shared_schemas"}),
    "cli": SERVICES | FOUNDATION | {"client"},
}
"""Each package below `antiphon`, and the other packages that it may import."""

MINICPMO = "inference_worker/engines/minicpmo/"
ONLY_UNDER: dict[str, tuple[str, ...]] = {
    "redis": ("broker/",),
    "fastapi": ("edge/",),
    "starlette": ("edge/",),
    "aiortc": ("edge/webrtc/",),
    "aioice": ("edge/webrtc/",),
    "uvicorn": ("edge/", "broker/service/status_port"),
    "opentelemetry": ("broker/service/tracing",),
    "onnxruntime": ("inference_worker/engines/common/onnx",),
    "torch": (MINICPMO,),
    "torchaudio": (MINICPMO,),
    "transformers": (MINICPMO,),
    "safetensors": (MINICPMO,),
    "websockets": ("antiphon/client/", "edge/transport/", "inference_worker/engines/backend/"),
}
"""Third-party packages, and the only places that may import them."""

_IO = "asyncio socket subprocess threading multiprocessing pathlib shutil"
_LIBRARIES = "redis fastapi starlette uvicorn uvloop websockets httpx structlog soundfile soxr PIL"
_ENGINES_AVOID = frozenset({"asyncio", "redis", "antiphon.broker", "fastapi"})
NEVER_UNDER: dict[str, frozenset[str]] = {
    "shared_schemas/": frozenset(f"{_IO} {_LIBRARIES}".split()),
    "inference_worker/engines/": _ENGINES_AVOID,
    "inference_worker/sessions/": frozenset({"redis", "torch", "fastapi", "websockets"}),
    "antiphon/client/": frozenset({"redis", "fastapi", "starlette"}),
}

KEY_LITERALS = ("{antiphon}", "antiphon:in:", "antiphon:out:", ":session:", ":worker:")

SAME_NAME_ALLOWED: frozenset[str] = frozenset()
"""Public class names that may be defined more than once, each with a reason."""


def folder_of(package: str) -> Path:
    return ROOT / "antiphon" / package if package in ("client", "cli") else ROOT / package


MODULES = sorted(
    path for package in MAY_IMPORT for path in folder_of(package).rglob("*.py") if path.is_file()
)


def place_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "antiphon" else ("antiphon", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    return module_name(path).split(".")[1]


@dataclass(frozen=True)
class Source:
    """What the checks need of a file. Trees of all files would slow down each garbage collection."""

    imports: frozenset[str]
    """Full names that the module imports, at its top or inside functions."""
    classes: tuple[str, ...]
    """At the top."""
    texts: tuple[tuple[int, str], ...]
    """Lines and values of its strings, without docstrings."""


@cache
def source_of(path: Path) -> Source:
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return Source(
        frozenset(imports_in(nodes, module_name(path).split(".")[:-1])),
        tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        tuple(
            (node.lineno, node.value)
            for node in nodes
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documents
        ),
    )


def imports_in(nodes: Iterable[ast.AST], package: list[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) == "import_module":
            yield from (str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant))


def _called(call: ast.Call) -> str | None:
    """The last part of the function's name, such as `c` of `a.b.c(…)`."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


def heads(path: Path) -> set[str]:
    """Third-party and standard packages by name, ours as `antiphon.<package>`."""
    parts = (name.split(".") for name in source_of(path).imports)
    return {".".join(each[:2]) if each[0] == "antiphon" else each[0] for each in parts}


def violations(forbidden: dict[Path, set[str]]) -> list[str]:
    return [f"{place_of(path)}: {sorted(names)}" for path, names in forbidden.items() if names]


def test_every_package_is_read() -> None:
    assert {package_of(path) for path in MODULES} == set(MAY_IMPORT)


def test_packages_import_only_what_they_may() -> None:
    ours = {f"antiphon.{package}" for package in MAY_IMPORT}
    assert not violations(
        {
            path: (heads(path) & ours)
            - {f"antiphon.{name}" for name in MAY_IMPORT[package_of(path)] | {package_of(path)}}
            for path in MODULES
        }
    )


def test_packages_are_imported_below_antiphon() -> None:
    """The repository's root may be on `sys.path`; a module imported by two names exists twice."""
    sources = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    bare = SERVICES | FOUNDATION
    assert not violations({path: heads(path) & bare for path in sources})


def test_some_libraries_are_imported_in_one_place_only() -> None:
    assert not violations(
        {
            path: {
                name
                for name in heads(path) & set(ONLY_UNDER)
                if not place_of(path).startswith(ONLY_UNDER[name])
            }
            for path in MODULES
        }
    )


def test_some_places_never_import_some_libraries() -> None:
    assert not violations(
        {
            path: heads(path) & names
            for path in MODULES
            for place, names in NEVER_UNDER.items()
            if place_of(path).startswith(place)
        }
    )


def test_no_import_cycle_between_files() -> None:
    known = {module_name(path) for path in MODULES}
    uses = {
        module_name(path): {
            target
            for name in source_of(path).imports
            for target in (name, name.rpartition(".")[0])
            if target in known and target != module_name(path)
        }
        for path in MODULES
    }
    assert cycles(uses) == []


WEB_IMPORT = re.compile(
    r'(?:from|import\()\s*"(\.[^"]+\.ts)"|^import "(\.[^"]+\.ts)"', re.MULTILINE
)


def test_no_import_cycle_between_files_of_the_pages() -> None:
    """Types and late imports count, too."""
    sources = ROOT / "web" / "src"
    uses = {
        str(path): {
            str((path.parent / (plain or alone)).resolve())
            for plain, alone in WEB_IMPORT.findall(path.read_text())
        }
        for path in sources.rglob("*.ts")
    }
    assert len(uses) > 100
    assert cycles(uses) == []


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_no_import_cycle_between_folders(package: str) -> None:
    """Folders and single modules directly below a package."""
    inside = f"antiphon.{package}."
    uses: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if module_name(path).startswith(inside):
            part = module_name(path).split(".")[2]
            targets = (
                name.split(".") for name in source_of(path).imports if name.startswith(inside)
            )
            uses[part] |= {target[2] for target in targets} - {part}
    assert cycles(uses) == []


def test_no_public_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for name in source_of(path).classes:
            if not name.startswith("_"):
                places[name].append(place_of(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {n: w for n, w in twice.items() if n not in SAME_NAME_ALLOWED} == {}
    assert set(twice) >= SAME_NAME_ALLOWED, "an entry of the allow-list is unused"


def test_redis_keys_are_named_in_one_file_only() -> None:
    for path in MODULES:
        if place_of(path) != "broker/keys.py":
            for line, text in source_of(path).texts:
                assert not any(key in text for key in KEY_LITERALS), f"{path}:{line} names a key"


def test_the_checks_find_late_and_relative_imports() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from .e import g\n    import_module('h.i')"
    assert set(imports_in(ast.walk(ast.parse(source)), ["p", "q"])) == {
        "a.b",
        "c.d",
        "p.q.e.g",
        "h.i",
    }
    parent = ast.walk(ast.parse("from .. import x"))
    assert set(imports_in(parent, ["p", "q"])) == {"p.x"}


def test_the_checks_find_a_cycle() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c"]]
