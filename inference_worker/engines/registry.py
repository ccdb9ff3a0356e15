"""The engines of this installation: the built-in ones, and those that other packages offer as entry points.

Commands list the engines in their help, so this module imports only the standard library.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.inference_worker.engines.plugin import EnginePlugin

GROUP = "antiphon.engines"
BUILT_IN = {
    "backend": "backend.plugin",
    "local": "local.plugin",
    "minicpmo": "minicpmo.plugin",
    "simulated": "simulated",
}
"""Modules of this folder by engine: a checkout that is not installed has no metadata to find them by."""


def engine_names() -> list[str]:
    """Names for `--engine`. Imports no engine."""
    return sorted(_entry_points())


def find_engine(name: str) -> EnginePlugin[Any]:
    """Import the plugin of an engine. Raises EngineLoadError."""
    from antiphon.inference_worker.engines.plugin import EnginePlugin
    from antiphon.inference_worker.engines.types import EngineLoadError

    points = _entry_points()
    if name not in points:
        choices = ", ".join(sorted(points))
        raise EngineLoadError(f"there is no engine {name!r}; choose one of: {choices}")
    try:
        plugin = points[name].load()
    except (ImportError, AttributeError) as error:
        text = f"the plugin {points[name].value} of the engine {name!r} cannot be imported: {error}"
        raise EngineLoadError(text) from error
    if not isinstance(plugin, EnginePlugin):
        raise EngineLoadError(
            f"{points[name].value} is no EnginePlugin, but {type(plugin).__name__}"
        )
    return plugin


def _entry_points() -> dict[str, EntryPoint]:
    """A package cannot replace a built-in engine."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    for name, module in BUILT_IN.items():
        value = f"antiphon.inference_worker.engines.{module}:PLUGIN"
        found[name] = EntryPoint(name, value, GROUP)
    return found
