"""Checks the libraries, weights and device of an engine without loading its weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.shared_schemas.findings import Finding, failure, ok

ABOUT = "engine"
_MINICPMO = "pip install 'antiphon[minicpmo]'"


def examine_engine(
    name: str, slots: int, model_path: Path | None, options: Mapping[str, Any]
) -> list[Finding]:
    """All checks of one engine. The arguments are those of `build_processor`."""
    values = {"slots": slots, **options}
    try:
        match name:
            case "local":
                return list(_local(values, model_path))
            case "minicpmo":
                return list(_minicpmo(values, model_path))
            case "simulated":
                return [ok(ABOUT, "simulated: needs nothing; for load tests only")]
    except ValidationError as error:
        return [failure(ABOUT, f"bad option: {error}", "correct ANTIPHON_ENGINE_OPTIONS")]
    return [failure(ABOUT, f"there is no engine {name!r}", "local, minicpmo or simulated")]


def _local(values: dict[str, Any], model_path: Path | None) -> Iterable[Finding]:
    from antiphon.inference_worker.engines.local.dependencies import examine
    from antiphon.inference_worker.engines.local.options import LocalOptions

    return examine(LocalOptions(model_path=model_path, **values))


def _minicpmo(values: dict[str, Any], model_path: Path | None) -> Iterable[Finding]:
    if model_path is None:
        remedy = "ANTIPHON_MODEL_PATH or --model-path: the folder of the checkpoint"
        return [failure("model folder", "not set", remedy)]
    try:
        from antiphon.inference_worker.engines.minicpmo.checkup import examine
        from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
    except ImportError as error:
        return [failure("torch", f"{error.name} is not installed", _MINICPMO)]
    return examine(model_path, EngineOptions(**values))
