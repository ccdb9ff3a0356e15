"""The words of an answer that the user has played, in any language."""

import pytest

from antiphon.shared_schemas.entries.turns import played_part, whole_words


@pytest.mark.parametrize(
    ("text", "played_ms", "expected"),
    [
        ("One two three", 0, ""),
        ("One two three", 500, "One"),
        ("One two three", 620, "One two"),
        ("One two three", 1000, "One two three"),
        ("你好，今天我们去公园散步。", 500, "你好，今天我"),
        ("你好 world", 700, "你好"),
    ],
)
def test_an_answer_is_cut_after_a_word(text: str, played_ms: int, expected: str) -> None:
    assert played_part(text, 1000, played_ms) == expected


def test_a_word_that_has_ended_is_whole() -> None:
    assert whole_words("One two", 3) == "One"
    assert whole_words("One two", 99) == "One two"
