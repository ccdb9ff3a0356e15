"""The files of a folder decide the kind of its vocoder, and one installation loads both."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    Token2WavVocoder,
    build_token2wav,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder_families import CrossfadeVocoder
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import (
    VoiceKind,
    check_package,
    check_voice,
    voice_folder,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from support.minicpmo import stepaudio_package, voice_folders

PUBLISHED = (
    "campplus.onnx",
    "flow.pt",
    "flow.yaml",
    "hift.pt",
    "speech_tokenizer_v2_25hz.onnx",
)
"""All files of `assets/token2wav` in openbmb/MiniCPM-o-4_5, revision 503e7542."""


def test_the_files_decide_the_kind(tmp_path: Path) -> None:
    assert set(VoiceKind.CROSSFADE.files) == set(PUBLISHED)
    for kind in VoiceKind:
        assert check_voice(voice_folders.voice_folder(tmp_path / kind.name, kind)) is kind


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in VoiceKind for name in kind.files]
)
def test_each_file_is_needed(kind: VoiceKind, name: str, tmp_path: Path) -> None:
    folder = voice_folders.voice_folder(tmp_path, kind)
    for content, says in (
        ("", f"{name} is empty; download it again"),
        ("version https://git-lfs.github.com/spec/v1\n", f"{name} is a pointer of Git LFS"),
    ):
        (folder / name).write_text(content)
        with pytest.raises(EngineLoadError, match=says):
            check_voice(folder)
    (folder / name).unlink()
    with pytest.raises(EngineLoadError, match=rf"\({kind.value}\) lacks {name}: repeat the down"):
        check_voice(folder)


def test_a_checkpoint_without_a_voice_says_where_one_is(tmp_path: Path) -> None:
    place = voice_folder(tmp_path, EngineOptions())
    assert place == tmp_path / "assets" / "token2wav"
    with pytest.raises(
        EngineLoadError,
        match=r"download assets/token2wav of openbmb/MiniCPM-o-4_5, and .* the option vocoder;",
    ):
        check_voice(place)


def test_the_option_names_a_voice_or_a_checkpoint_that_has_one(tmp_path: Path) -> None:
    options = EngineOptions(vocoder=tmp_path / "official")
    assert voice_folder(tmp_path, options) == tmp_path / "official"
    inside = tmp_path / "official" / "assets" / "token2wav"
    inside.mkdir(parents=True)
    assert voice_folder(tmp_path, options) == inside
    assert voice_folder(tmp_path, EngineOptions(vocoder="none")) is None


def test_an_older_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineLoadError, match="not installed: pip install --no-deps minicpmo-ut"):
        check_package()
    (tmp_path / "stepaudio2").mkdir()
    (tmp_path / "stepaudio2" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineLoadError, match=r"older than 1\.0\.7: pip install --no-deps min"):
        check_package()
    (tmp_path / "stepaudio2" / "causal_vocoder").mkdir()
    check_package()


def test_the_published_kind_is_built_with_the_networks_of_the_later_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights have the published names: those of the last stage begin with "generator."."""
    later = stepaudio_package.token2wav(stepaudio_package.LATER)
    package = stepaudio_package.package("token2wav")
    networks = stepaudio_package.package("flashcosyvoice.modules.hifigan")

    def small() -> torch.nn.Module:
        predictor = networks.ConvRNNF0Predictor(cond_channels=128)
        model: torch.nn.Module = networks.HiFTGenerator(base_channels=32, f0_predictor=predictor)
        return model

    folder = voice_folders.voice_folder(tmp_path, VoiceKind.CROSSFADE)
    torch.save(later.flow.state_dict(), folder / "flow.pt")
    stored = small()
    names = {f"generator.{name}": part for name, part in stored.state_dict().items()}
    torch.save(names, folder / "hift.pt")
    monkeypatch.setattr(package, "HiFTGenerator", small)
    monkeypatch.setattr(package, "_load_config", lambda _path: {"flow": later.flow})
    identity = SimpleNamespace(load_model=lambda _path: torch.nn.Identity())
    monkeypatch.setattr(package, "s3tokenizer", identity)
    speaker = SimpleNamespace(SessionOptions=SimpleNamespace, InferenceSession=lambda *_, **__: 1)
    monkeypatch.setattr(package, "onnxruntime", speaker)
    cpu = torch.device("cpu")
    inner = build_token2wav(package, check_voice(folder), folder, 2, cpu)
    assert not hasattr(inner, "bounded_vocoder")
    assert all(
        torch.equal(part, stored.state_dict()[name])
        for name, part in inner.hift.state_dict().items()
    )
    vocoder = Token2WavVocoder(inner, cpu, voice_seconds=6)
    assert isinstance(vocoder._streams._family, CrossfadeVocoder)
    vocoder.close()
