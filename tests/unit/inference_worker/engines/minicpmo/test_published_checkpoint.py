"""The published configuration, tokenizer, names and shapes, against what this engine expects of them."""

import hashlib
import json
from pathlib import Path
from typing import get_type_hints

import pytest
import tokenizers

from antiphon.inference_worker.engines.minicpmo.checkpoint_files import read_config
from antiphon.inference_worker.engines.minicpmo.checkup import examine
from antiphon.inference_worker.engines.minicpmo.config import (
    CARDS,
    EngineOptions,
    ModelConfig,
    find_card,
)
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import PREVIOUS_MARKER
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import (
    ANSWER_OPENING,
    USER_CLOSING,
)
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    check_tensors,
    stored_tensors,
)
from antiphon.inference_worker.engines.minicpmo.model.memory import GIB, estimate
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds, Tokenizer
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import SILENT_PREFIX
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, FindingStatus
from random_model import config_of
from support.minicpmo import golden_set, published
from support.minicpmo.voice_folders import voice_folder
from support.tools import WEATHER

H200 = CARDS["h200"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All published files, whose weights are holes."""
    made = published.write_checkpoint(tmp_path_factory.mktemp("published"))
    voice_folder(made / "assets" / "token2wav", VoiceKind.CROSSFADE)
    return made


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def test_special_tokens_have_the_published_ids(tokenizer: Tokenizer) -> None:
    ids, hints = published.added_tokens(), get_type_hints(SpecialIds, include_extras=True)
    for name, hint in hints.items():
        if hasattr(hint, "__metadata__"):
            assert getattr(tokenizer.ids, name) == ids[hint.__metadata__[0]], name
    assert tokenizer.ids.answer_ends[:2] == (ids["<|tts_eos|>"], ids["<|im_end|>"])
    assert tokenizer.ids.chat_ends == (ids["<|im_end|>"], ids["<|endoftext|>"])
    speech = read_config_of(published.config()).tts_config
    assert speech.audio_bos_token_id == ids["<focus>"]
    assert speech.text_eos_token_id == ids["</perception>"]
    assert max(SILENT_PREFIX) < speech.end_code


def test_texts_have_the_recorded_ids(tokenizer: Tokenizer) -> None:
    recorded = golden_set.facts("real_tokenizer")
    assert len(tokenizer) == recorded["length"] == published.config()["vocab_size"]
    for case in recorded["cases"]:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]
    assert recorded["special"].items() <= published.added_tokens().items()
    forbidden = tokenizer.forbidden[1:]
    assert (len(forbidden), sum(forbidden)) == (
        recorded["bad_token_ids"]["count"],
        recorded["bad_token_ids"]["sum"],
    )


def test_the_merges_are_those_of_tokenizer_json(folder: Path, tokenizer: Tokenizer) -> None:
    """The published merges.txt lacks 16,452 of them, those of Chinese words. The recordings of Chinese were
    made with it; the publisher's fingerprint is of tokenizer.json.
    """
    merges = json.loads((folder / "tokenizer.json").read_bytes())["model"]["merges"]
    content = json.dumps(merges, ensure_ascii=False, separators=(",", ":")).encode()
    assert hashlib.sha256(content).hexdigest().startswith(published.merges_hash())
    fewer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    fewer.model = tokenizers.models.BPE.from_file(*published.vocabulary_and_merges())
    recorded = golden_set.facts("real_tokenizer")
    for case in [*recorded["cases"], *recorded["cases_of_merges_txt"]]:
        assert fewer.encode(case["text"]).ids == case["ids"]
    [chinese] = recorded["cases_of_merges_txt"]
    words = tokenizer.encode(chinese["text"])
    assert words == [108386, 37945, 56007, 104139, 73670, 99663, 87026, 11319]
    assert tokenizer.decode(words) == tokenizer.decode(chinese["ids"]) == chinese["text"]


def test_our_texts_are_parsed_as_the_tokens_that_they_mean(tokenizer: Tokenizer) -> None:
    """A mark in a prompt that is no token would be read as letters."""
    ids = published.added_tokens()
    assert tokenizer.encode(ANSWER_OPENING) == [
        ids["<|im_start|>"],
        *tokenizer.encode("assistant\n"),
        ids["<think>"],
        *tokenizer.encode("\n\n"),
        ids["</think>"],
        *tokenizer.encode("\n\n"),
        ids["<|tts_bos|>"],
    ]
    assert tokenizer.encode(USER_CLOSING)[0] == ids["<|im_end|>"]
    assert len(tokenizer.encode(PREVIOUS_MARKER)) == 4
    for mark in ("<image_id>", "</image_id>", "<image>", "</image>", "<slice>", "</slice>"):
        assert tokenizer.encode(mark) == [ids[mark]]


def test_the_template_opens_a_turn_as_we_do(tokenizer: Tokenizer) -> None:
    said = [{"role": "user", "content": "Hello."}]
    text = tokenizer.chat(said, add_generation_prompt=True)
    assert text == f"<|im_start|>user\nHello.{USER_CLOSING}{ANSWER_OPENING}"
    silent = tokenizer.chat(said, add_generation_prompt=True, speak=False)
    assert silent == text.removesuffix("<|tts_bos|>")
    thinking = tokenizer.chat(said, add_generation_prompt=True, thinking=True, speak=False)
    assert thinking == silent.removesuffix("<think>\n\n</think>\n\n")


def test_the_template_of_the_small_checkpoint_is_the_published_one(tokenizer: Tokenizer) -> None:
    small = Tokenizer(golden_set.CHECKPOINT)
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "V"), ("assistant", "B")]
    messages = [{"role": role, "content": content} for role, content in turns]
    for count in (1, 2, 3, 4):
        for options in ({}, {"add_generation_prompt": True}, {"thinking": True}, {"speak": False}):
            given = messages[:count]
            assert tokenizer.chat(given, **options) == small.chat(given, **options)


def test_the_template_knows_tools(tokenizer: Tokenizer) -> None:
    assert tokenizer.knows_tools
    call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rom"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "weather Rome"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "sunny"},
    ]
    text = tokenizer.chat(messages, tools=[WEATHER], add_generation_prompt=True, speak=False)
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rom"}}\n</tool_call>'
    assert f"<tools>\n{json.dumps(WEATHER)}\n</tools>" in text
    assert text.endswith(
        "<|im_end|>\n<|im_start|>user\nweather Rome<|im_end|>\n"
        f"<|im_start|>assistant\n{written}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def read_config_of(content: object) -> ModelConfig:
    return ModelConfig.model_validate(content)


def test_the_configuration_is_the_one_that_everything_was_counted_with(folder: Path) -> None:
    """Benches and documents use a copy of the sizes."""
    config = read_config(folder)  # with the slices of the preprocessor
    counted = read_config_of(golden_set.facts("real_param_shapes")["config"])
    assert config == counted == config_of("real")


def test_pictures_are_sliced_as_the_preprocessor_says(folder: Path, tmp_path: Path) -> None:
    """config.json names one slice, which is the setting of the training."""
    assert published.config()["slice_config"]["max_slice_nums"] == 1
    assert read_config(folder).slice_config.max_slice_nums == 9
    (tmp_path / "config.json").write_text(json.dumps(published.config()))
    assert read_config(tmp_path).slice_config.max_slice_nums == 1


def test_names_and_shapes_fit_the_network(folder: Path) -> None:
    stored = stored_tensors({str(n): path for n, path in enumerate(folder.glob("*.safetensors"))})
    network = build_on_meta(read_config(folder))
    assert check_tensors(network, stored, stored) == []
    assert {name: list(tensor.shape) for name, tensor in stored.items()} == published.shapes()
    assert sum(tensor.numel() for tensor in network.parameters()) == 9_371_787_666


def findings(folder: Path, **options: object) -> dict[str, Finding]:
    return {each.about: each for each in examine(folder, EngineOptions(**options), H200)}  # type: ignore[arg-type]


def test_a_dry_start_examines_everything_but_the_weights(folder: Path) -> None:
    found = findings(folder, slots=64, context_tokens=4096)
    assert found["gpu"].found.startswith("NVIDIA H200, 139 GiB assumed to be free")
    assert found["model folder"].found.endswith("4 weight files, 17.5 GiB")
    assert found["model tensors"].found == "all 1414 names; shapes and types of 1414: BF16"
    assert found["tokenizer"].found == "151748 tokens"
    assert found["voice"].found.endswith("token2wav, the kind of releases up to 1.0.6")
    needed = estimate(
        read_config(folder), EngineOptions(context_tokens=4096), "cuda", voices=True
    ).of(64)
    assert found["model memory"].found.startswith(
        f"64 slots of 4096 tokens (with a voice) need {needed / GIB:.1f} of 139.0 GiB; "
    )
    # Without a GPU the voice's packages are not installed.
    failed = {name for name, each in found.items() if each.verdict is FindingStatus.FAILURE}
    assert failed <= {"voice package"}


def test_weights_without_contents_leave_the_rest_examined(folder: Path, tmp_path: Path) -> None:
    """A folder with the real configuration and index, and with empty files for the weights."""
    link_config(folder, tmp_path)
    for path in folder.iterdir():
        if path.suffix == ".safetensors":
            (tmp_path / path.name).touch()
        elif not (tmp_path / path.name).exists():
            (tmp_path / path.name).symlink_to(path)
    found = findings(tmp_path)
    assert "00001-of-00004.safetensors is empty" in found["model folder"].found
    assert found["model tensors"].found.startswith("all 1414 names; shapes and types of 0: none; ")
    assert found["model tensors"].verdict is FindingStatus.WARNING
    for name in ("tokenizer", "voice", "model memory"):
        assert found[name].verdict is FindingStatus.OK, found[name]


def link_config(folder: Path, to: Path) -> None:
    """The published configuration, with the tokenizer of the small checkpoint, which loads quickly."""
    (to / "config.json").symlink_to(folder / "config.json")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (to / name).symlink_to(golden_set.CHECKPOINT / name)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"llm.lm_head.weight": None}, "1 missing names: llm.lm_head.weight"),
        ({"tts.emb_code.0.weight": [6562, 767]}, "tts.emb_code.0.weight has shape (6562, 767), t"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    change: dict[str, list[int] | None], says: str, folder: Path, tmp_path: Path
) -> None:
    link_config(folder, tmp_path)
    changed = published.shapes() | change
    tensors = {name: shape for name, shape in changed.items() if shape is not None}
    published.write_holes(tmp_path / "model.safetensors", tensors)
    found = findings(tmp_path)["model tensors"]
    assert found.verdict is FindingStatus.FAILURE
    assert says in found.found


def test_unknown_tensors_and_a_missing_voice_are_warnings(folder: Path, tmp_path: Path) -> None:
    link_config(folder, tmp_path)
    published.write_holes(tmp_path / "model.safetensors", published.shapes() | {"new.weight": [2]})
    found = findings(tmp_path)
    assert found["model tensors"].verdict is FindingStatus.WARNING
    assert found["model tensors"].found.endswith("1 are not used: new.weight")
    assert found["voice"].verdict is FindingStatus.WARNING
    assert "download assets/token2wav of openbmb/MiniCPM-o-4_5" in found["voice"].found
    assert "(text only)" in found["model memory"].found


def test_cards_are_named() -> None:
    assert find_card("H200") is H200
    with pytest.raises(EngineLoadError, match=r"'t4'; the cards are a10, .*rtx-5090$"):
        find_card("t4")
    refused = findings_of_quantize("a100-80")
    assert "A100 80 GB has 8.0: use int8" in refused.found


def findings_of_quantize(card: str) -> Finding:
    options = EngineOptions(quantize="fp8")
    found = examine(golden_set.CHECKPOINT, options, CARDS[card])
    return next(each for each in found if each.about == "quantize")
