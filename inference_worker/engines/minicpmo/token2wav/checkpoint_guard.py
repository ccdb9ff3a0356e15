"""Checks the vocoder's folder before its package opens it: no file of a checkpoint may run code.

The package reads YAML with hyperpyyaml, whose tags import modules and call functions, and pickles.
"""

import os
import re
from collections import Counter
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

_TRAINING_CLASS = re.compile(
    r"!new:(stepaudio2\.)?(cosyvoice2?\.hifigan\.(hifigan|discriminator)|matcha\.hifigan\.models)"
    r"\.[A-Z]\w*"
)
"""What the published file makes below the key that is dropped."""

_LARGEST_YAML = 1024 * 1024
_DROPPED = {"config.yaml": "hifigan"}
"""A top-level key, by file, whose value the package drops before it resolves any tag."""

_REMEDY = "use the file of the published checkpoint"


def check_yaml(folder: Path) -> None:
    """Raises EngineLoadError, which names the file, if a tag could run code or a key is there twice.

    Below the dropped key, the classes of the training are allowed as well.
    """
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            if path.stat().st_size > _LARGEST_YAML:
                raise EngineLoadError(f"{path} is larger than {_LARGEST_YAML} bytes")
            root = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise EngineLoadError(f"{path} cannot be read: {error}") from error
        if root is None:
            continue
        if (twice := next(_repeated_keys(root), None)) is not None:
            raise EngineLoadError(f"{path} has the key {twice!r} twice in a mapping: {_REMEDY}")
        name = _DROPPED.get(path.name)
        refused = {node.tag for node in _nodes(root, without=name)} - ALLOWED_TAGS
        if (dropped := _value_of(root, name)) is not None:
            below = {node.tag for node in _nodes(dropped)} - ALLOWED_TAGS
            refused |= {tag for tag in below if not _TRAINING_CLASS.fullmatch(tag)}
        if refused:
            raise EngineLoadError(
                f"{path} has the tag {min(refused)}, which could run code: {_REMEDY}"
            )


def _repeated_keys(root: yaml.Node) -> Iterator[str]:
    """Readers disagree about which of two values counts, and about tags that tell two keys apart."""
    for node in _nodes(root):
        if isinstance(node, yaml.MappingNode):
            names = Counter(str(key.value) for key, _ in node.value)
            yield from (name for name, count in names.items() if count > 1)


def _value_of(root: yaml.Node, name: str | None) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _nodes(root: yaml.Node, without: str | None = None) -> Iterator[yaml.Node]:
    """All nodes, or all but the value of a key of the root; each once, also if aliases name it."""
    visited: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        yield node
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                left.append(key)
                if not (node is root and key.value == without):
                    left.append(value)


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
