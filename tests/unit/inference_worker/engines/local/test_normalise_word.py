import pytest

from antiphon.inference_worker.engines.local.clauses import is_speakable, normalise_word


@pytest.mark.parametrize(
    ("raw", "spoken"),
    [
        ("Paris.", "Paris."),
        ("**Paris**", "Paris"),
        ('"Hello,"', "Hello,"),
        ("“Luxury”.", "Luxury."),
        ("it’s", "it's"),
        ("snake_case", "snake case"),
        ("`code`", "code"),
        ("```python", ""),
        ("😀", ""),
        ("great!😀", "great!"),
        ("50%", "50 percent"),
        ("$3.50", "3.50 dollars"),
        ("20°C", "20 degrees Celsius"),
        ("&", "and"),
        ("=", "equals"),
        ("C++", "C++"),
        ("https://www.example.com", "example.com"),
        ("[link](https://a.b/c)", "link"),
        ("café", "café"),
        ("1,500", "1,500"),
    ],
)
def test_words_are_written_as_they_are_spoken(raw: str, spoken: str) -> None:
    assert normalise_word(raw, begins_line=False) == spoken


def test_bullets_and_heading_marks_are_removed_at_the_beginning_of_a_line_only() -> None:
    assert normalise_word("-", begins_line=True) == ""
    assert normalise_word("##", begins_line=True) == ""
    assert normalise_word("-", begins_line=False) == "-"
    assert normalise_word("7.", begins_line=True) == "7."


def test_punctuation_alone_has_no_spoken_form() -> None:
    assert not is_speakable("—")
    assert is_speakable("7.")
