"""Misspelled settings in the environment and in `antiphon.toml`."""

import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.broker.removed_settings import REMOVED_SETTINGS
from antiphon.broker.settings import BrokerSettings, InvalidSettings
from antiphon.cli.settings import (
    OTHER_PROGRAMS,
    check_client_key,
    check_setting_names,
    setting_names,
)
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings

ROOT = Path(__file__).parents[3]
KEY = "k0123456789abcdef"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_known_names_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_PORT", "8007")
    monkeypatch.setenv("ANTIPHON_SITE", "voice.example.org")
    Path("antiphon.toml").write_text("port = 8007\nretention_days = 3\n")
    check_setting_names()


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/webrtc.yml", "deploy/llm.yml"])
def test_the_variables_of_the_compose_files_are_known(file: str) -> None:
    names = set(re.findall(r"ANTIPHON_[A-Z_]+", (ROOT / file).read_text()))
    assert names <= {f"ANTIPHON_{name.upper()}" for name in setting_names()} | OTHER_PROGRAMS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "prot in antiphon.toml is not a setting; did you mean port?"),
        ("PORT = 1", "PORT in antiphon.toml is not a setting; did you mean port?"),
        ("antiphon_port = 1", "antiphon_port in .* is not a setting; did you mean port?"),
        ("[edge]\nport = 1", r"has a table \[edge\]: settings belong at the top level"),
        ("port = = 3", "antiphon.toml is not valid TOML: .*line 1, column 8"),
        ("zzz = 1", r"zzz in antiphon.toml is not a setting \(docs/configuration.md lists"),
    ],
)
def test_mistakes_in_the_file(text: str, words: str) -> None:
    Path("antiphon.toml").write_text(text)
    with pytest.raises(InvalidSettings, match=words):
        check_setting_names()


def test_a_removed_setting_is_refused_with_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("antiphon.toml").write_text('recordings_dir = "/srv"')
    monkeypatch.setenv("ANTIPHON_STREAM_TTL_S", "60")
    with pytest.raises(InvalidSettings) as refused:
        check_setting_names()
    first, second = str(refused.value).split("; recordings_dir")
    assert first == (
        "ANTIPHON_STREAM_TTL_S is no longer a setting: remove it; the value is fixed at 15 minutes"
    )
    assert second.startswith(" in antiphon.toml is no longer a setting: set data_dir")
    assert BrokerSettings().stream_ttl_s == 900


def test_a_removed_engine_option_is_refused_with_what_to_do_instead() -> None:
    options = {"engine": "minicpmo", "engine_options": {"speech_tokens": 8}}
    with pytest.raises(InvalidSettings, match="speech_tokens is no longer an option: remove it"):
        WorkerSettings(**options)
    assert WorkerSettings(**options | {"engine": "another"}).engine_options


def test_no_setting_is_listed_as_removed() -> None:
    assert setting_names() & REMOVED_SETTINGS.keys() == set()


def test_several_variables_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEYZ", KEY)
    monkeypatch.setenv("ANTIPHON_HOTS", "0.0.0.0")
    with pytest.raises(InvalidSettings) as refused:
        check_setting_names()
    assert "ANTIPHON_API_KEYZ" in str(refused.value)
    assert "ANTIPHON_HOTS is not a setting; did you mean ANTIPHON_HOST?" in str(refused.value)
    assert KEY not in str(refused.value)


def test_the_key_of_a_client_protects_no_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", KEY)
    with pytest.raises(InvalidSettings, match="the key that a client sends"):
        check_client_key(EdgeSettings())
    check_client_key(EdgeSettings(api_keys=[KEY]))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "ANTIPHON_SLOTS: must be at least 1"),
        ("many", "ANTIPHON_SLOTS: must be a whole number"),
        ("", "ANTIPHON_SLOTS: must be a whole number"),
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    monkeypatch.setenv("ANTIPHON_SLOTS", value)
    with pytest.raises(InvalidSettings) as refused:
        WorkerSettings()
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "name", ["LEASE_S", "RECOVERY_TIMEOUT_S", "RESUME_GRACE_S", "BROKER_PATIENCE_S"]
)
@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
def test_a_time_that_redis_cannot_hold_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ANTIPHON_{name}", value)
    with pytest.raises(InvalidSettings, match=f"ANTIPHON_{name}: must be (at most|more than)"):
        BrokerSettings()


def test_a_bad_value_names_the_file_or_the_flag() -> None:
    Path("antiphon.toml").write_text("lease_s = -1")
    with pytest.raises(InvalidSettings) as refused:
        BrokerSettings()
    assert str(refused.value) == "lease_s in antiphon.toml: must be more than 0"
    with pytest.raises(InvalidSettings) as refused:
        BrokerSettings(lease_s="soon")
    assert str(refused.value) == "--lease-s: must be a number"


def test_a_path_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    Path("antiphon.toml").write_text('data_dir = "~/voices"')
    assert RecorderSettings().data_dir == Path("/home/me/voices")
    monkeypatch.setenv("ANTIPHON_MODEL_PATH", "~/m.gguf")
    assert WorkerSettings().model_path == Path("/home/me/m.gguf")
    assert RecorderSettings(data_dir=Path("a/~")).data_dir == Path("a/~")
    Path("antiphon.toml").write_text('data_dir = "~nosuchuser/voices"')
    with pytest.raises(
        InvalidSettings, match=r"data_dir in .*: the home folder ~nosuchuser is unk"
    ):
        RecorderSettings()


def test_a_value_that_must_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_ENGINE_OPTIONS", "nojson")
    with pytest.raises(InvalidSettings, match="ANTIPHON_ENGINE_OPTIONS: must be JSON"):
        WorkerSettings()


def test_quantize_is_an_option_of_the_engine() -> None:
    settings = WorkerSettings(engine="minicpmo", quantize="int8", engine_options={"a": 1})
    assert settings.all_engine_options == {"a": 1, "quantize": "int8"}
    assert WorkerSettings().all_engine_options == {}


def test_settings_of_one_engine_do_not_disturb_another() -> None:
    """A load test runs `simulated` where a file names the language model of `local`."""
    text = 'llm_url = "http://h/v1"\nllm_model = "m"\nvoice = "emma"\nquantize = "int8"'
    Path("antiphon.toml").write_text(text)
    assert WorkerSettings(engine="simulated").all_engine_options == {}
    assert WorkerSettings(engine="minicpmo").all_engine_options == {"quantize": "int8"}
    assert set(WorkerSettings().all_engine_options) == {"llm_url", "llm_model", "voice"}
    assert set(WorkerSettings(engine="theirs").all_engine_options) >= {"quantize", "voice"}
    for name, engine in (("voice", "simulated"), ("quantize", "local"), ("model_path", "backend")):
        flag = name.replace("_", "-")
        with pytest.raises(InvalidSettings, match=f"--{flag}: the engine '{engine}' has no such"):
            WorkerSettings(engine=engine, **{name: "int8"})
    assert (
        WorkerSettings(engine="minicpmo", model_path=Path("MiniCPM-o-4_5")).engine_model_path
        is not None
    )
    Path("antiphon.toml").write_text('model_path = "model.gguf"')
    assert WorkerSettings(engine="simulated").engine_model_path is None
    assert WorkerSettings().engine_model_path == Path("model.gguf")


def test_a_server_of_a_language_model_is_an_option_of_the_engine() -> None:
    own: dict[str, Any] = {"llm_url": "http://h/v1", "llm_model": "m", "llm_key_file": "key"}
    assert WorkerSettings(**own).all_engine_options == own
    with pytest.raises(InvalidSettings, match="model_path and llm_url name two language models"):
        WorkerSettings(**own, model_path=Path("model.gguf"))
