"""The files of a checkpoint's folder, checked without torch and before anything loads.

A download that has not finished, or a `git clone` without Git LFS, gets one line with the remedy.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig, SliceConfig
from antiphon.inference_worker.engines.types import EngineLoadError

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
TOKENIZER = "tokenizer.json"

FILES_SHOWN = 4
_AGAIN = "repeat the download, which continues (docs/gpu.md)"
_LENGTH_BYTES = 8
"""A file of safetensors begins with the length of its table of contents."""
LFS_POINTER = b"version https://git-lfs"


def check_files(folder: Path) -> None:
    """Raise EngineLoadError if the folder lacks files or has parts of them. Reads no weights."""
    read_config(folder)
    single = folder / WEIGHTS
    for path in sorted(set((indexed_weights(folder) or {"": single}).values())):
        _check_whole(path)
    for name in (TOKENIZER, "tokenizer_config.json"):
        read_json(folder / name)


def read_config(folder: Path) -> ModelConfig:
    """Read `folder`/config.json. Raises EngineLoadError naming the field that does not fit.

    How pictures are sliced is in preprocessor_config.json, if there is one: the reference reads it there.
    """
    path = folder / "config.json"
    if not folder.is_dir():
        raise EngineLoadError(f"there is no folder {folder}; correct --model-path")
    if not path.is_file():
        text = f"{folder} is not a MiniCPM-o folder: it has no config.json; correct --model-path"
        raise EngineLoadError(text)
    content, slicing = read_json(path), folder / "preprocessor_config.json"
    if slicing.is_file():
        known, found = SliceConfig.model_fields, read_json(slicing)
        content["slice_config"] = {name: found[name] for name in known if name in found}
    try:
        return ModelConfig.model_validate(content)
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
    names = _index(folder)
    if names is None:
        if (folder / WEIGHTS).is_file():
            return None
        raise EngineLoadError(f"{folder} has no {WEIGHTS} (nor {INDEX}); {_AGAIN}")
    files = sorted(set(names.values()))
    absent = [path.name for path in files if not path.is_file()]
    if absent:
        more = f" and {len(absent) - FILES_SHOWN} more" if len(absent) > FILES_SHOWN else ""
        raise EngineLoadError(
            f"{folder} lacks {len(absent)} of {len(files)} weight files: "
            f"{', '.join(absent[:FILES_SHOWN])}{more}; {_AGAIN}"
        )
    return names


def indexed_names(folder: Path) -> dict[str, Path]:
    """Map each tensor name to its file, whether that exists or not. Raises EngineLoadError."""
    names = _index(folder)
    if names is not None:
        return names
    single = folder / WEIGHTS
    if not single.is_file():
        raise EngineLoadError(f"{folder} has no {WEIGHTS} (nor {INDEX}); {_AGAIN}")
    return dict.fromkeys(read_header(single), single)


def _index(folder: Path) -> dict[str, Path] | None:
    index = folder / INDEX
    if not index.is_file():
        return None
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise EngineLoadError(f"{index} has no weight_map; {_AGAIN}")
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


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What the table of contents of a weight file says of a tensor; `dtype` is a name of safetensors."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a weight file, by its table of contents. Raises EngineLoadError."""
    return _read_header(path)[0]


def _check_whole(path: Path) -> None:
    """Compare the length of a weight file with its table of contents."""
    size, (_, whole) = path.stat().st_size, _read_header(path)
    if size != whole:
        raise _invalid(path, b"", f"{size} of {whole} bytes")


def _read_header(path: Path) -> tuple[dict[str, StoredTensor], int]:
    """The tensors of a weight file, and the length that it must have."""
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        table = file.read(min(length, path.stat().st_size))
    if not start:
        raise EngineLoadError(f"{path} is empty; {_AGAIN}")
    try:
        found = json.loads(table)
        entries = {name: entry for name, entry in found.items() if "data_offsets" in entry}
        tensors = {
            name: StoredTensor(entry["dtype"], tuple(entry["shape"]))
            for name, entry in entries.items()
        }
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _invalid(path, start + table, "it is no file of safetensors") from error
    return tensors, _LENGTH_BYTES + length + end


def _invalid(path: Path, content: bytes, why: str) -> EngineLoadError:
    if content.startswith(LFS_POINTER):
        return EngineLoadError(
            f"{path} is a pointer of Git LFS instead of the file; run `git lfs pull` in the folder"
        )
    return EngineLoadError(f"{path} is truncated or invalid ({why}); download it again")
