"""Ids, text and the chat template."""

import json
import random
from pathlib import Path
from typing import Any

from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from support.minicpmo import golden_set
from support.minicpmo.golden_set import CHECKPOINT
from support.tools import TEMPLATE, WEATHER


def test_ids_and_text(tokenizer: Tokenizer) -> None:
    facts = golden_set.facts("tokenizer")
    for case in facts["cases"]:
        assert tokenizer.encode(case["text"]) == case["ids"]
    for case in facts["decode"]:
        assert tokenizer.decode(case["ids"]) == case["text"]
    assert len(tokenizer.forbidden) - 1 == facts["bad_token_ids_count"]
    special = facts["special"]
    assert tokenizer.ids.listen == special["<|listen|>"]
    assert tokenizer.ids.turn_eos == special["<|turn_eos|>"]
    assert tokenizer.ids.eos == special["<|im_end|>"]


def test_a_text_is_measured_without_being_written(tokenizer: Tokenizer) -> None:
    """Also one with characters that are divided among tokens, with parts of them, and with special tokens."""
    chance = random.Random(0)
    for length in range(60):
        ids = [chance.randrange(len(tokenizer)) for _ in range(length % 12)]
        ids += tokenizer.encode("你好 naïve 😀"[: length % 9])
        characters = len(tokenizer.decode(ids))
        for count in (characters - 1, characters, characters + 1):
            assert tokenizer.has_characters(ids, count) == (characters >= count)


def test_chat_template(tokenizer: Tokenizer) -> None:
    facts = golden_set.facts("h_chat")
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "V")]
    messages = [{"role": role, "content": content} for role, content in turns]
    for count, name in ((2, "with_generation_prompt"), (4, "multi_turn")):
        want = facts[f"chat_template_{name}"]
        text = tokenizer.chat(messages[:count], add_generation_prompt=True)
        assert text == want["text"]
        assert tokenizer.encode(text) == want["ids"]


def test_tools_are_written_as_the_template_says(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert not tokenizer.knows_tools
    (tmp_path / "tokenizer.json").write_bytes((CHECKPOINT / "tokenizer.json").read_bytes())
    settings = json.loads((CHECKPOINT / "tokenizer_config.json").read_text())
    settings["chat_template"] = TEMPLATE
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    capable = Tokenizer(tmp_path)
    assert capable.knows_tools
    call = {
        "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Rom\u0000"}},
    }
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "weather Rome"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call, call]},
        {"role": "tool", "content": "sunny"},
        {"role": "tool", "content": "rainy"},
    ]
    written = (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rom\\u0000"}}\n</tool_call>'
    )
    assert capable.chat(messages, tools=[WEATHER], add_generation_prompt=True, speak=False) == (
        "<|im_start|>system\nBe brief.\n\n# Tools\n\n"
        "You may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{json.dumps(WEATHER)}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nweather Rome<|im_end|>\n"
        f"<|im_start|>assistant\nLet me see.\n{written}\n{written}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response>\n"
        "<tool_response>\nrainy\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
