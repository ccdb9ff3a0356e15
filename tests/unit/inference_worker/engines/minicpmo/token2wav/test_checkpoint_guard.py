"""No file of the vocoder's folder runs code."""

import os
import re
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.token2wav.checkpoint_guard import (
    MODULES,
    check_yaml,
    weights_only,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import load_token2wav
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo.stepaudio_package import PACKAGE
from support.minicpmo.voice_folders import voice_folder

FLOW = """
__set_seed1: !apply:random.seed [1986]
size: 512
flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec
  input_size: !ref <size> * 1
  encoder: !new:stepaudio2.cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2
    sizes: !tuple [1, 2]
"""
CONFIG = """
feat_extractor: !name:matcha.utils.audio.mel_spectrogram {n_fft: 1920, center: False}
hift: &hift !new:cosyvoice.hifigan.generator.CausalHiFTGenerator
  f0_predictor: !new:cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor {}
hifigan: !new:cosyvoice.hifigan.hifigan.HiFiGan
  generator: *hift
  discriminator: !new:cosyvoice.hifigan.discriminator.MultipleDiscriminator
    mpd: !new:matcha.hifigan.models.MultiPeriodDiscriminator {}
    mrd: !new:cosyvoice.hifigan.discriminator.MultiResSpecDiscriminator {}
"""
ATTACKS = (
    "flow: !apply:os.system [id]",
    "flow: !new:subprocess.Popen {args: id}",
    "flow: !name:os.system {}",
    "flow: !module:antigravity",
    "flow: !include:/etc/passwd",
    "flow: !!python/object/apply:os.system [id]",
    "flow: !!python/name:os.system ''",
    "? !apply:os.system [id]\n: 1",
    "flow: {a: [1, {b: !apply:os.system [id]}]}",
    "%TAG !x! !apply:\n---\nflow: !x!os.system [id]",
    "flow: !%61pply:os.system [id]",
    "flow: !<!apply:os.system> [id]",
    "hifigan: &x !apply:os.system [id]\nflow: *x",
    "flow: {hifigan: !apply:os.system [id]}",
    "flow: 1\n---\nflow: !apply:os.system [id]",
    "flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec.__init__ {}",
    "flow: [1",
    "hifigan: 1\nhifigan: !apply:os.system [id]",
    'hifigan: 1\n"hifigan": 2',
    "hifigan: 1\n!ref hifigan: 2",
    "flow: {size: 1, size: 2}",
    "flow: 1\nflow: 2",
    "<<: {a: 1}\n<<: {b: 2}",
)
DROPPED_ATTACKS = (
    "hifigan: !apply:os.system [id]",
    "hifigan: {generator: [!apply:os.system [id]]}",
    "hifigan: !new:subprocess.Popen {args: id}",
    "hifigan: !new:cosyvoice.hifigan.hifigan.os.system [id]",
    "hifigan: !new:cosyvoice.hifigan.hifigan.HiFiGan.__init__ {}",
    "hifigan: !name:os.system {}",
    "hifigan: !module:antigravity",
    "hifigan: !include:/etc/passwd",
    "hifigan: !!python/object/apply:os.system [id]",
    "a: &x {b: 1}\nhifigan: {c: *x, d: !apply:os.system [id]}",
    "hifigan: {a: 1, a: 2}",
    "hifigan: &x !new:cosyvoice.hifigan.hifigan.HiFiGan {}\nhift: *x",
    "hift: &x !new:cosyvoice.hifigan.hifigan.HiFiGan {}\nhifigan: *x",
)
"""Below the key of config.yaml that the package drops."""


def checkpoint(folder: Path, **files: str) -> Path:
    for name, text in {"flow": FLOW, "config": CONFIG, **files}.items():
        (folder / f"{name}.yaml").write_text(text)
    return voice_folder(folder, VoiceKind.CAUSAL)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package that constructs nothing; the list gets the rule in force at each attempt."""
    place = tmp_path / "site" / "stepaudio2"
    (place / "causal_vocoder").mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "token2wav.py").write_text(
        "import os\n\nopened = []\n\n\ndef Token2wav(*_args, **_options):\n"
        "    opened.append(os.environ.get('TORCH_FORCE_WEIGHTS_ONLY_LOAD'))\n"
        "    raise RuntimeError(opened[-1])\n"
    )
    monkeypatch.syspath_prepend(place.parent)
    module = import_module("stepaudio2.token2wav")
    for name in ("stepaudio2", "stepaudio2.token2wav"):
        monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))
    opened: list[str] = module.opened
    return opened


def test_the_tags_of_the_published_checkpoint_are_allowed(tmp_path: Path) -> None:
    check_yaml(checkpoint(tmp_path))


def test_the_list_has_everything_that_the_package_replaces() -> None:
    source = (PACKAGE / "token2wav.py").read_text()
    targets = source[source.index("targets = {") : source.index("with Path(path)")]
    assert set(re.findall(r"'([\w.]+)':", targets)) == set(MODULES)


@pytest.mark.parametrize("name", ["flow", "config"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_tag_that_runs_code_is_refused_before_the_package_opens_it(
    attack: str, name: str, tmp_path: Path, package: list[str]
) -> None:
    folder = checkpoint(tmp_path, **{name: attack})
    with pytest.raises(EngineLoadError, match=rf"{name}\.yaml"):
        load_token2wav(folder, EngineOptions(), torch.device("cuda", 0))
    assert not package


@pytest.mark.parametrize("attack", DROPPED_ATTACKS)
def test_the_value_that_the_package_drops_calls_nothing_either(attack: str, tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"config\.yaml"):
        check_yaml(checkpoint(tmp_path, config=attack))


def test_the_package_runs_under_that_rule(
    tmp_path: Path, package: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    with pytest.raises(EngineLoadError, match=r"no vocoder in .*: 1$"):
        load_token2wav(checkpoint(tmp_path), EngineOptions(), torch.device("cuda", 0))
    assert package == ["1"]


class _Malicious:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_pickle_runs_nothing_even_if_its_reader_allows_it(tmp_path: Path) -> None:
    file, mark = tmp_path / "flow.pt", tmp_path / "ran"
    torch.save({"weight": _Malicious(mark)}, file)
    with weights_only(), pytest.raises(Exception, match=r"weights_only|Weights only"):
        torch.load(file, weights_only=False)
    assert not mark.exists()
    torch.save({"weight": torch.ones(2)}, file)
    with weights_only():
        assert torch.load(file)["weight"].sum() == 2
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
