"""Creates or checks an engine by name. Imports only the libraries of that engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from antiphon.inference_worker.engines.plugin import EnginePlugin
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.registry import find_engine
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.constant import names_of
from antiphon.shared_schemas.findings import Finding, failure


def build_processor(
    name: str,
    *,
    slots: int = 4,
    model_path: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> UnifiedProcessor:
    """The engine `name` for `slots` sessions, not loaded yet.

    `model_path` is the checkpoint folder for `minicpmo`, and replaces the bundled language model of
    `local`. `options` are the fields of the engine's options class. Raises EngineLoadError for an
    unknown engine or an invalid option.
    """
    plugin = find_engine(name)
    values = _options(name, plugin, {"slots": slots, **(options or {})})
    plugin.check_model(model_path)
    try:
        return plugin.build(values, model_path)
    except ImportError as error:
        text = f"engine {name!r} lacks {error.name}; run: {plugin.install}"
        raise EngineLoadError(text) from error


def check_engine(
    name: str, *, slots: int, model_path: Path | None, options: Mapping[str, Any]
) -> None:
    """Check the arguments of `build_processor` without the engine's libraries.

    Raises EngineLoadError.
    """
    plugin = find_engine(name)
    _options(name, plugin, {"slots": slots, **options})
    plugin.check_model(model_path)


def examine_engine(
    name: str,
    slots: int,
    model_path: Path | None,
    options: Mapping[str, Any],
    *,
    card: str | None = None,
) -> list[Finding]:
    """Checks libraries, weights and device, without loading the weights.

    The arguments are those of `build_processor`. `card` is the name of a GPU that is not present.
    """
    try:
        plugin = find_engine(name)
        values = _options(name, plugin, {"slots": slots, **options})
    except EngineLoadError as error:
        return [failure("engine", str(error), "ANTIPHON_ENGINE and ANTIPHON_ENGINE_OPTIONS")]
    try:
        if card is not None:
            return list(plugin.examine_for(card, values, model_path))
        return list(plugin.examine(values, model_path))
    except EngineLoadError as error:
        return [failure("card", str(error), "name another --card, or none")]
    except ImportError as error:
        return [failure(str(error.name), "not installed", plugin.install)]


def _options(engine: str, plugin: EnginePlugin[Any], values: Mapping[str, Any]) -> BaseModel:
    kind: type[BaseModel] = plugin.options
    try:
        return kind(**values)
    except ValidationError as error:
        faults = [_fault(kind, details) for details in error.errors()]
        raise EngineLoadError(f"engine {engine!r}: {'; '.join(faults)}") from error


def _fault(kind: type[BaseModel], details: ErrorDetails) -> str:
    option = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return f"there is no option {option}; the options are: {', '.join(names_of(kind))}"
    said = details["msg"].removeprefix("Value error, ").replace("Input should", "must")
    return f"option {option}: {said}" if option else said
