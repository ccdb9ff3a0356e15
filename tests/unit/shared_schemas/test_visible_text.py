"""Text of clients as a terminal gets it."""

import json
import unicodedata

import pytest

from antiphon.shared_schemas.visible_text import (
    MARK,
    MAX_MARKS,
    is_visible,
    visible,
    visible_json,
    visible_line,
)

ORDINARY = (
    "plain words, tabs\tand\nlines",
    "日本語 и кириллица, Tiếng Việt, é and e\u0301",
    "שָׁלוֹם",
    "می\u200cخواهم",  # Persian needs the non-joiner
    "क्\u200dष",
    "👨\u200d👩\u200d👧 ❤\ufe0f ❤\ufe0f\u200d🔥 👍🏽 1\ufe0f⃣ ☎\ufe0e",
    "a\xa0b\u3000c",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_of_any_language_stays(text: str) -> None:
    assert visible(text) == text
    assert visible_json(text) == text


def test_no_control_or_format_character_stays() -> None:
    """Asked of every character of Unicode that could be one."""
    left = [
        f"U+{number:04X}"
        for number in range(0x110000)
        if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(number) not in "\t\n"
        and visible(f"a{chr(number)}b") != f"a{MARK}b"
    ]
    signs = ["U+0600", "U+0601", "U+0602", "U+0603", "U+0604", "U+0605", "U+06DD", "U+070F"]
    signs += ["U+0890", "U+0891", "U+08E2", "U+110BD", "U+110CD"]
    assert left == signs, "signs of numbers are seen: they may stay"


@pytest.mark.parametrize(
    "hidden", ["\u034f", "\u115f", "\u3164", "\uffa0", "\U000e0100", "\ufe00", "\u180b", "\u17b4"]
)
def test_what_nobody_sees_does_not_stay(hidden: str) -> None:
    assert visible(f"a{hidden}b") == f"a{MARK}b"


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d", "\ufe0f", "\ufe0e"])
def test_joiners_stay_only_where_they_are_used(joiner: str) -> None:
    assert visible(f"ad{joiner}min") == f"ad{MARK}min"
    assert visible(joiner) == MARK
    assert visible(f"👍{joiner * 3}👍").count(joiner) <= 1


def test_a_stack_of_marks_is_cut() -> None:
    assert visible("z" + "\u0301" * 500 + "!") == "z" + "\u0301" * MAX_MARKS + MARK + "!"
    assert visible(("e" + "\u0301" * MAX_MARKS) * 50) == ("e" + "\u0301" * MAX_MARKS) * 50


def test_lines_of_windows_are_lines() -> None:
    assert visible("a\r\nb\rc") == f"a\nb{MARK}c"


def test_a_line_stays_one_line() -> None:
    assert visible_line("a\r\nb\tc\nd\u2028e\x85f") == f"a b c d{MARK}e{MARK}f"
    assert not is_visible("a\nb")
    assert not is_visible("\u202ea")
    assert is_visible("Zoë 2")


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x9b\x7f\u202e\ufeff", "\U000e0041", "\ud800", "a\u200db"]
)
def test_json_keeps_its_value(text: str) -> None:
    shown = visible_json(json.dumps({text: text}, ensure_ascii=False))
    assert shown.isascii()
    assert json.loads(shown) == {text: text}
