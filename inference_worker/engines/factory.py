"""Creates or checks an engine by name. Imports only the libraries of that engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure, ok

_MINICPMO = "pip install 'antiphon[minicpmo]'"


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
    check_engine(name, slots=slots, model_path=model_path, options=options or {})
    settings = {"slots": slots, **(options or {})}
    if model_path is not None:
        settings["model_path"] = model_path
    return _BUILDERS[name](settings)


def check_engine(
    name: str, *, slots: int, model_path: Path | None, options: Mapping[str, Any]
) -> None:
    """Check the arguments of `build_processor` without the engine's libraries.

    Raises EngineLoadError.
    """
    values = {"slots": slots, **options}
    if model_path is not None and name == "simulated":
        values["model_path"] = model_path
    _check_options(name, values)
    if name == "minicpmo":
        from antiphon.inference_worker.engines.minicpmo.config import read_config

        if model_path is None:
            text = "engine 'minicpmo' needs the checkpoint's folder: --model-path DIR"
            raise EngineLoadError(text)
        read_config(model_path)
    elif name == "local" and model_path is not None:
        from antiphon.inference_worker.engines.local.options import check_gguf

        check_gguf(model_path)


def _options_class(name: str) -> type[BaseModel]:
    match name:
        case "local":
            from antiphon.inference_worker.engines.local.options import LocalOptions

            return LocalOptions
        case "minicpmo":
            from antiphon.inference_worker.engines.minicpmo.config import EngineOptions

            return EngineOptions
        case "simulated":
            from antiphon.inference_worker.engines.simulated import SimulatedOptions

            return SimulatedOptions
    choices = ", ".join(engine_names())
    raise EngineLoadError(f"there is no engine {name!r}; choose one of: {choices}")


def _check_options(engine: str, values: Mapping[str, Any]) -> None:
    kind = _options_class(engine)
    try:
        kind(**values)
    except ValidationError as error:
        faults = [_fault(kind, details) for details in error.errors()]
        raise EngineLoadError(f"engine {engine!r}: {'; '.join(faults)}") from error


def _fault(kind: type[BaseModel], details: ErrorDetails) -> str:
    option = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return f"there is no option {option}; the options are: {', '.join(kind.model_fields)}"
    return f"option {option}: {details['msg'].replace('Input should', 'must')}"


def _local(settings: Mapping[str, Any]) -> UnifiedProcessor:
    from antiphon.inference_worker.engines.local.options import LocalOptions
    from antiphon.inference_worker.engines.local.processor import LocalProcessor

    return LocalProcessor(LocalOptions(**settings))


def _simulated(settings: Mapping[str, Any]) -> UnifiedProcessor:
    from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor

    return SimulatedProcessor(SimulatedOptions(**settings))


def _minicpmo(settings: Mapping[str, Any]) -> UnifiedProcessor:
    options = dict(settings)
    folder = options.pop("model_path")
    try:
        from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
        from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
    except ImportError as error:
        text = f"engine 'minicpmo' lacks {error.name}; run: {_MINICPMO}"
        raise EngineLoadError(text) from error
    return MiniCPMOProcessor(folder, EngineOptions(**options))


_BUILDERS: dict[str, Callable[[Mapping[str, Any]], UnifiedProcessor]] = {
    "local": _local,
    "minicpmo": _minicpmo,
    "simulated": _simulated,
}


def engine_names() -> list[str]:
    """Every engine that `build_processor` knows."""
    return sorted(_BUILDERS)


def examine_engine(
    name: str, slots: int, model_path: Path | None, options: Mapping[str, Any]
) -> list[Finding]:
    """Checks libraries, weights and device, without loading the weights.

    The arguments are those of `build_processor`.
    """
    values = {"slots": slots, **options}
    try:
        _check_options(name, values)
    except EngineLoadError as error:
        return [failure("engine", str(error), "ANTIPHON_ENGINE and ANTIPHON_ENGINE_OPTIONS")]
    match name:
        case "local":
            return list(_examine_local(values, model_path))
        case "minicpmo":
            return list(_examine_minicpmo(values, model_path))
    return [ok("engine", "simulated: needs nothing; for load tests only")]


def _examine_local(values: dict[str, Any], model_path: Path | None) -> Iterable[Finding]:
    from antiphon.inference_worker.engines.local.dependencies import examine
    from antiphon.inference_worker.engines.local.options import LocalOptions

    return examine(LocalOptions(model_path=model_path, **values))


def _examine_minicpmo(values: dict[str, Any], model_path: Path | None) -> Iterable[Finding]:
    if model_path is None:
        remedy = "ANTIPHON_MODEL_PATH or --model-path: the folder of the checkpoint"
        return [failure("model folder", "not set", remedy)]
    try:
        from antiphon.inference_worker.engines.minicpmo.checkup import examine
        from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
    except ImportError as error:
        return [failure("torch", f"{error.name} is not installed", _MINICPMO)]
    return examine(model_path, EngineOptions(**values))
