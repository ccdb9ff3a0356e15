"""Ids, text and the chat template."""

from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from support.minicpmo import golden_set


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


def test_chat_template(tokenizer: Tokenizer) -> None:
    facts = golden_set.facts("h_chat")
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "V")]
    messages = [{"role": role, "content": content} for role, content in turns]
    for count, name in ((2, "with_generation_prompt"), (4, "multi_turn")):
        want = facts[f"chat_template_{name}"]
        text = tokenizer.chat(messages[:count], add_generation_prompt=True)
        assert text == want["text"]
        assert tokenizer.encode(text) == want["ids"]
