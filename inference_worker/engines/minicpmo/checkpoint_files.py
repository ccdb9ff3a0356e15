"""The files of a checkpoint's folder, checked without torch and before anything loads.

A download that has not finished, or a `git clone` without Git LFS, gets one line with the remedy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.types import EngineLoadError

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
TOKENIZER = "tokenizer.json"

FILES_SHOWN = 4
_AGAIN = "repeat the download, which continues (docs/gpu.md)"
_LENGTH_BYTES = 8
"""A file of safetensors begins with the length of its table of contents."""
_POINTER = b"version https://git-lfs"


def check_files(folder: Path) -> None:
    """Raise EngineLoadError if the folder lacks files or has parts of them. Reads no weights."""
    read_config(folder)
    single = folder / WEIGHTS
    for path in sorted(set((indexed_weights(folder) or {"": single}).values())):
        _check_whole(path)
    for name in (TOKENIZER, "tokenizer_config.json"):
        read_json(folder / name)


def read_config(folder: Path) -> ModelConfig:
    """Read `folder`/config.json. Raises EngineLoadError naming the field that does not fit."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise EngineLoadError(f"there is no folder {folder}; correct --model-path")
    if not path.is_file():
        text = f"{folder} is not a MiniCPM-o folder: it has no config.json; correct --model-path"
        raise EngineLoadError(text)
    try:
        return ModelConfig.model_validate(read_json(path))
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"]))
        raise EngineLoadError(
            f"{path} does not describe MiniCPM-o 4.5: {field}: {fault['msg'].lower()}"
        ) from error


def indexed_weights(folder: Path) -> dict[str, Path] | None:
    """Map each tensor name to its file; None without an index, when one file has all weights.

    Raises EngineLoadError if files are missing.
    """
    index = folder / INDEX
    if not index.is_file():
        if (folder / WEIGHTS).is_file():
            return None
        raise EngineLoadError(f"{folder} has no {WEIGHTS} (nor {INDEX}); {_AGAIN}")
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise EngineLoadError(f"{index} has no weight_map; {_AGAIN}")
    files = sorted({str(name) for name in names.values()})
    absent = [name for name in files if not (folder / name).is_file()]
    if absent:
        more = f" and {len(absent) - FILES_SHOWN} more" if len(absent) > FILES_SHOWN else ""
        raise EngineLoadError(
            f"{folder} lacks {len(absent)} of {len(files)} weight files: "
            f"{', '.join(absent[:FILES_SHOWN])}{more}; {_AGAIN}"
        )
    return {str(tensor): folder / str(name) for tensor, name in names.items()}


def read_json(path: Path) -> dict[str, Any]:
    """An object of JSON in the folder. Raises EngineLoadError if there is none."""
    if not path.is_file():
        raise EngineLoadError(f"{path.parent} has no {path.name}; {_AGAIN}")
    content = path.read_bytes()
    try:
        found = json.loads(content)
    except ValueError as error:
        raise _invalid(path, content, str(error)) from error
    if not isinstance(found, dict):
        raise _invalid(path, content, "it is not an object")
    return found


def _check_whole(path: Path) -> None:
    """Compare the length of a weight file with its table of contents."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        table = file.read(min(length, size))
    try:
        tensors = json.loads(table)
        ends = [entry["data_offsets"][1] for entry in tensors.values() if "data_offsets" in entry]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _invalid(path, start + table, "it is no file of safetensors") from error
    whole = _LENGTH_BYTES + length + max(ends, default=0)
    if size != whole:
        raise _invalid(path, start, f"{size} of {whole} bytes")


def _invalid(path: Path, content: bytes, why: str) -> EngineLoadError:
    if content.startswith(_POINTER):
        return EngineLoadError(
            f"{path} is a pointer of Git LFS instead of the file; run `git lfs pull` in the folder"
        )
    return EngineLoadError(f"{path} is truncated or invalid ({why}); download it again")
