"""What is published of MiniCPM-o 4.5, without its weights: configuration, tokenizer, names and shapes.

The package `minicpm-o5-sdk` has the configuration and the tokenizer, whose added tokens stand in another
file. Names and shapes are recorded from the reference's classes. Nothing of the package is imported.
"""

import importlib.util
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from support.minicpmo import golden_set

SHARDS = 4
"""Weight files of the published checkpoint."""

_BASE = "base_tokenizers/qwen2_o45_fc"
_BUNDLE = "bundles/o45_fc_duplex_v0_1_0"
_ADDED = f"{_BUNDLE}/pretrain_added_tokens.json"


def config() -> Any:
    """The contents of config.json."""
    return _json(f"{_BASE}/config.json")


def merges_hash() -> str:
    """The first digits of SHA-256 of the merges that the publisher's programs run with."""
    stated: str = _json(f"{_BUNDLE}/manifest.json")["base_tokenizer_fingerprint"]["merges_hash"]
    return stated


def vocabulary_and_merges() -> tuple[str, str]:
    """The paths of vocab.json and merges.txt, which the engine does not read."""
    return str(_place() / _BASE / "vocab.json"), str(_place() / _BASE / "merges.txt")


@cache
def added_tokens() -> dict[str, int]:
    return {token["content"]: token["id"] for token in _json(_ADDED)["added_tokens"]}


def shapes() -> dict[str, list[int]]:
    """Of all tensors."""
    params = golden_set.facts("real_param_shapes")["params"]
    return {name: entry["shape"] for name, entry in params.items()}


def write_tokenizer(folder: Path) -> Path:
    """tokenizer.json and tokenizer_config.json."""
    tokenizer = _json(f"{_BASE}/tokenizer.json")
    given = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer["added_tokens"] = [token | given for token in _json(_ADDED)["added_tokens"]]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = (_place() / _BASE / "tokenizer_config.json").read_bytes()
    (folder / "tokenizer_config.json").write_bytes(settings)
    return folder


def write_checkpoint(folder: Path) -> Path:
    """The published folder with weights of no contents: holes in files of the right length."""
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(config()))
    # Not in the package: the reference slices pictures by this file.
    slices = {"max_slice_nums": 9, "scale_resolution": 448, "patch_size": 14}
    (folder / "preprocessor_config.json").write_text(json.dumps(slices))
    ours = shapes()
    files = {n: f"model-{n + 1:05}-of-{SHARDS:05}.safetensors" for n in range(SHARDS)}
    weight_map = {name: files[n * SHARDS // len(ours)] for n, name in enumerate(ours)}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for file in files.values():
        names = [name for name in ours if weight_map[name] == file]
        write_holes(folder / file, {name: ours[name] for name in names})
    return folder


def write_holes(path: Path, tensors: Mapping[str, list[int]]) -> None:
    """A file of safetensors with a table of contents, and a hole of the length of its tensors."""
    table, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * math.prod(shape)
        table[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    content = json.dumps(table).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    with path.open("r+b") as file:
        file.truncate(8 + len(content) + end)


@cache
def _place() -> Path:
    spec = importlib.util.find_spec("minicpm_o5_sdk")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("minicpm-o5-sdk is not installed: `make test` installs it")
    return Path(spec.origin).parent / "tokenizers"


def _json(name: str) -> Any:
    return json.loads((_place() / name).read_text(encoding="utf-8"))
