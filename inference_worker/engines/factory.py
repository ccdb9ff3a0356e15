"""Creates an engine by name. Imports only the libraries of that engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineLoadError


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
    try:
        build = _BUILDERS[name]
    except KeyError:
        raise EngineLoadError(_unknown_engine(name)) from None
    settings = {"slots": slots, **(options or {})}
    if model_path is not None:
        settings["model_path"] = model_path
    try:
        return build(settings)
    except ValidationError as error:
        raise EngineLoadError(f"engine {name!r}: {_describe(error)}") from error


def _local(settings: Mapping[str, Any]) -> UnifiedProcessor:
    from antiphon.inference_worker.engines.local.options import LocalOptions
    from antiphon.inference_worker.engines.local.processor import LocalProcessor

    return LocalProcessor(LocalOptions(**settings))


def _simulated(settings: Mapping[str, Any]) -> UnifiedProcessor:
    from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor

    return SimulatedProcessor(SimulatedOptions(**settings))


def _minicpmo(settings: Mapping[str, Any]) -> UnifiedProcessor:
    options = dict(settings)
    folder = options.pop("model_path", None)
    if folder is None:
        raise EngineLoadError("engine 'minicpmo' needs the checkpoint's folder: --model-path DIR")
    try:
        from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
        from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
    except ImportError as error:
        remedy = "pip install 'antiphon[minicpmo]'"
        raise EngineLoadError(f"engine 'minicpmo' lacks {error.name}; run: {remedy}") from error
    return MiniCPMOProcessor(folder, EngineOptions(**options))


_BUILDERS: dict[str, Callable[[Mapping[str, Any]], UnifiedProcessor]] = {
    "local": _local,
    "minicpmo": _minicpmo,
    "simulated": _simulated,
}


def _unknown_engine(name: str) -> str:
    return f"there is no engine {name!r}; choose one of: {', '.join(_BUILDERS)}"


def _describe(error: ValidationError) -> str:
    return "; ".join(
        f"option {'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()
    )
