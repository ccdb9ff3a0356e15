"""Checks the vocoder's folder before its package opens it: no file of a checkpoint may run code.

The package reads YAML with hyperpyyaml, whose tags import modules and call functions, and pickles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from antiphon.inference_worker.engines.types import EngineLoadError

MODULES = (
    "cosyvoice2.flow.flow.CausalMaskedDiffWithXvec",
    "cosyvoice2.flow.flow_matching.CausalConditionalCFM",
    "cosyvoice2.flow.decoder_dit.DiT",
    "cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2",
    "cosyvoice.hifigan.generator.CausalHiFTGenerator",
    "cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor",
    "matcha.utils.audio.mel_spectrogram",
)
"""What the package replaces by its own classes; releases may name them below `stepaudio2`."""

_SEEDS = ("random.seed", "numpy.random.seed", "torch.manual_seed", "torch.cuda.manual_seed_all")
_YAML = "tag:yaml.org,2002:"
_PLAIN = ("bool", "float", "int", "map", "merge", "null", "seq", "str")

ALLOWED_TAGS = frozenset(
    [f"{_YAML}{name}" for name in _PLAIN]
    + ["!ref", "!copy", "!tuple"]
    + [f"!apply:{name}" for name in _SEEDS]
    + [
        f"!{kind}:{root}{name}"
        for kind in ("new", "name")
        for root in ("", "stepaudio2.")
        for name in MODULES
    ]
)

_LARGEST_YAML = 1024 * 1024
_REPLACED = {"config.yaml": "hifigan"}
"""A top-level key, by file, whose value the package drops before it resolves any tag."""


def check_yaml(folder: Path) -> None:
    """Raises EngineLoadError, which names the file, if a tag is not in ALLOWED_TAGS."""
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            if path.stat().st_size > _LARGEST_YAML:
                raise EngineLoadError(f"{path} is larger than {_LARGEST_YAML} bytes")
            root = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise EngineLoadError(f"{path} cannot be read: {error}") from error
        refused = sorted(_tags(root, _REPLACED.get(path.name)) - ALLOWED_TAGS)
        if refused:
            raise EngineLoadError(
                f"{path} has the tag {refused[0]}, which could run code: use the file of the "
                "published checkpoint"
            )


def _tags(root: yaml.Node | None, dropped: str | None) -> set[str]:
    found: set[str] = set()
    visited: set[int] = set()
    left = [root] if root else []
    while left:
        node = left.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        found.add(node.tag)
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                left.append(key)
                if not (node is root and key.value == dropped):
                    left.append(value)
    return found


@contextmanager
def weights_only() -> Iterator[None]:
    """Inside the context, `torch.load` builds tensors only, even if its caller asks for more."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
