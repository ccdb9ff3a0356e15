"""A folder with a part of the checkpoint gets one line with the remedy, before torch is imported."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import check_files
from antiphon.inference_worker.engines.minicpmo.checkup import examine
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import FindingStatus
from support.minicpmo.golden_set import CHECKPOINT

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: void((folder / name).write_text(content))


def void(_: object) -> None:
    pass


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


def index(*present: str) -> Callable[[Path], None]:
    """The index of six files, of which these are there."""

    def change(folder: Path) -> None:
        names = [f"model-{n}.safetensors" for n in range(1, 7)]
        for name in present:
            shutil.copy(folder / "model.safetensors", folder / name)
        (folder / "model.safetensors").unlink()
        content = json.dumps({"weight_map": {f"tensor.{name}": name for name in names}})
        (folder / "model.safetensors.index.json").write_text(content)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (remove("model.safetensors"), "has no model.safetensors (nor model.safetensors.index"),
        (
            index("model-1.safetensors"),
            "lacks 5 of 6 weight files: model-2.safetensors, model-3.safetensors, "
            "model-4.safetensors, model-5.safetensors and 1 more; repeat the download",
        ),
        (cut, "model.safetensors is truncated or invalid ("),
        (write("model.safetensors", ""), "model.safetensors is empty; repeat the download"),
        (write("model.safetensors", POINTER), "is a pointer of Git LFS instead of the file"),
        (write("tokenizer.json", POINTER), "is a pointer of Git LFS instead of the file"),
        (write("config.json", POINTER), "is a pointer of Git LFS instead of the file"),
        (write("model.safetensors.index.json", "{"), "index.json is truncated or invalid ("),
        (write("model.safetensors.index.json", "{}"), "index.json has no weight_map; repeat"),
        (write("tokenizer.json", "[]"), "tokenizer.json is truncated or invalid (it is not an"),
        (remove("tokenizer.json"), "has no tokenizer.json; repeat the download"),
        (remove("tokenizer_config.json"), "has no tokenizer_config.json; repeat the download"),
        (
            write("config.json", '{"model_type": "llama"}'),
            "config.json does not describe MiniCPM-o 4.5: model_type: input should be 'minicpmo'",
        ),
    ],
)
def test_a_part_of_the_checkpoint_is_refused(
    change: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(CHECKPOINT, folder)
    check_files(folder)
    change(folder)
    with pytest.raises(EngineLoadError) as caught:
        check_files(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    found = {each.about: each for each in examine(folder, EngineOptions(device="cpu"))}
    assert found["model folder"].verdict is FindingStatus.FAILURE
    assert found["model folder"].found == str(caught.value)


def test_a_missing_gpu_is_named_and_the_cpu_is_used_only_if_it_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = {
        device: next(
            each
            for each in examine(CHECKPOINT, EngineOptions(device=device, slots=1))
            if each.about == "gpu"
        )
        for device in ("auto", "cpu")
    }
    assert found["auto"].verdict is FindingStatus.FAILURE
    assert "option device to cpu (far slower than real time)" in found["auto"].found
    assert found["cpu"].verdict is FindingStatus.WARNING
