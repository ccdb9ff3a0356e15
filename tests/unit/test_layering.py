"""The import rules of the code, checked by reading the source of every module."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
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
    "uvicorn": ("edge/", "broker/service/status_port"),
    "opentelemetry": ("broker/service/tracing",),
    "onnxruntime": ("inference_worker/engines/common/silero",),
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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names that a module imports, at its top or inside functions."""
    return frozenset(imports_in(tree_of(path), module_name(path).split(".")[:-1]))


def imports_in(tree: ast.Module, package: list[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (arg.value for arg in node.args[:1] if _is_text(arg))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def heads(path: Path) -> set[str]:
    """Third-party and standard packages by name, ours as `antiphon.<package>`."""
    parts = (name.split(".") for name in imports(path))
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
            for name in imports(path)
            for target in (name, name.rpartition(".")[0])
            if target in known and target != module_name(path)
        }
        for path in MODULES
    }
    assert cycles(uses) == []


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_no_import_cycle_between_folders(package: str) -> None:
    """Folders and single modules directly below a package."""
    inside = f"antiphon.{package}."
    uses: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if module_name(path).startswith(inside):
            part = module_name(path).split(".")[2]
            targets = (name.split(".") for name in imports(path) if name.startswith(inside))
            uses[part] |= {target[2] for target in targets} - {part}
    assert cycles(uses) == []


def test_no_public_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place_of(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {n: w for n, w in twice.items() if n not in SAME_NAME_ALLOWED} == {}
    assert set(twice) >= SAME_NAME_ALLOWED, "an entry of the allow-list is unused"


def test_redis_keys_are_named_in_one_file_only() -> None:
    for path in MODULES:
        if place_of(path) == "broker/keys.py":
            continue
        documents = {id(text) for text in _docstrings(tree_of(path))}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and _is_text(node) and id(node) not in documents:
                for literal in KEY_LITERALS:
                    assert literal not in str(node.value), f"{path}:{node.lineno} names a key"


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            yield node.value


def test_the_checks_find_late_and_relative_imports() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from .e import g\n    import_module('h.i')"
    assert set(imports_in(ast.parse(source), ["p", "q"])) == {"a.b", "c.d", "p.q.e.g", "h.i"}
    assert set(imports_in(ast.parse("from .. import x"), ["p", "q"])) == {"p.x"}


def test_the_checks_find_a_cycle() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c"]]
