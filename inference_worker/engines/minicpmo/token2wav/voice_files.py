"""The files of a folder of Token2wav, which decide its kind; checked without torch and before anything loads.

Releases of the package `minicpmo-utils` up to 1.0.6 read one kind, and 1.0.7 reads the other. Release 1.0.7 has
the networks of both.
"""

import importlib.util
from enum import Enum
from pathlib import Path

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.minicpmo.checkpoint_files import LFS_POINTER
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.types import EngineLoadError

BESIDE_MODEL = Path("assets", "token2wav")
REPOSITORY = "openbmb/MiniCPM-o-4_5"
"""The repository of the official checkpoint, which has the voice."""

INSTALL = "pip install --no-deps minicpmo-utils==1.0.7, and the extra token2wav"
TEXT_ONLY = "or serve text only with vocoder=none"

_COMMON = (
    "campplus.onnx",
    "flow.pt",
    "flow.yaml",
    "hift.pt",
    "speech_tokenizer_v2_25hz.onnx",
)
_IMPORTS = (
    "einops",
    "hyperpyyaml",
    "librosa",
    "onnx",
    "onnxruntime",
    "s3tokenizer",
    "scipy",
    "torchaudio",
    "torchcodec",
    "tqdm",
)
"""Top-level modules that the package imports."""


class VoiceKind(Enum):
    """How the vocoder joins its chunks; the value is what users read."""

    CROSSFADE = "the kind of releases up to 1.0.6"
    CAUSAL = "the kind of release 1.0.7"

    @property
    def files(self) -> tuple[str, ...]:
        """All files of a folder of this kind."""
        return _COMMON if self is VoiceKind.CROSSFADE else (*_COMMON, *_CAUSAL_ONLY)


_CAUSAL_ONLY = ("config.yaml", "hift_original.pt")


def voice_folder(model: Path, options: EngineOptions) -> Path | None:
    """The folder of Token2wav that `options` name; None for text only.

    "auto" is the model's folder, whether it exists or not. The option may also name a checkpoint.
    """
    if options.vocoder == "none":
        return None
    if options.vocoder == "auto":
        return model / BESIDE_MODEL
    inside = options.vocoder / BESIDE_MODEL
    return inside if inside.is_dir() else options.vocoder


def check_voice(folder: Path) -> VoiceKind:
    """The kind of the folder. Raises EngineLoadError if it, or a file of its kind, is missing or empty."""
    if not folder.is_dir():
        raise EngineLoadError(
            f"there is no folder {folder}. Quantised checkpoints contain no voice: download "
            f"{BESIDE_MODEL} of {REPOSITORY}, and name its folder in the option vocoder; {TEXT_ONLY}"
        )
    causal = any((folder / name).exists() for name in _CAUSAL_ONLY)
    kind = VoiceKind.CAUSAL if causal else VoiceKind.CROSSFADE
    missing = [name for name in kind.files if not (folder / name).is_file()]
    if missing:
        raise EngineLoadError(
            f"{folder} ({kind.value}) lacks {', '.join(missing)}: repeat the download, which continues "
            f"(docs/gpu.md); {TEXT_ONLY}"
        )
    for name in kind.files:
        _check_content(folder / name)
    return kind


def check_package() -> None:
    """Raise EngineLoadError unless the package that loads both kinds is installed. Imports nothing."""
    folders = package_folders("stepaudio2")
    if not folders:
        raise EngineLoadError(f"Token2wav's package is not installed: {INSTALL}; {TEXT_ONLY}")
    if not any((folder / "causal_vocoder").is_dir() for folder in folders):
        raise EngineLoadError(f"minicpmo-utils is older than 1.0.7: {INSTALL}; {TEXT_ONLY}")


def check_imports() -> None:
    """Raise EngineLoadError unless everything that the package imports is installed. Imports nothing."""
    lacks = [name for name in _IMPORTS if importlib.util.find_spec(name) is None]
    if lacks:
        raise EngineLoadError(
            f"Token2wav imports {', '.join(lacks)}, which this Python lacks: {INSTALL}; {TEXT_ONLY}"
        )


def _check_content(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(len(LFS_POINTER))
    if start == LFS_POINTER:
        raise EngineLoadError(
            f"{path} is a pointer of Git LFS instead of the file; run `git lfs pull` in the folder"
        )
    if not start:
        raise EngineLoadError(f"{path} is empty; download it again")
