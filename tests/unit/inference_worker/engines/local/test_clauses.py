import re

from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.answer import FixedText
from antiphon.inference_worker.engines.local.clauses import (
    ClauseSplitter,
    clauses_of,
    ends_sentence,
    words_of,
)
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard
from antiphon.inference_worker.engines.local.reply import Reply, UnfinishedReply
from antiphon.inference_worker.engines.local.speech import Clause


def split(text: str) -> list[Clause]:
    """`text` as a model streams it: a piece per word, with the space before it."""
    splitter = ClauseSplitter()
    clauses = [clause for piece in re.findall(r"\s*\S+", text) for clause in splitter.feed(piece)]
    return clauses + splitter.flush()


def texts(text: str) -> list[str]:
    return [clause.text for clause in split(text)]


def test_sentences_are_clauses() -> None:
    clauses = split("The capital of France is Paris. It is on the Seine.")
    assert [clause.text for clause in clauses] == [
        "The capital of France is Paris.",
        "It is on the Seine.",
    ]
    assert all(clause.ends_sentence for clause in clauses)


def test_a_sentence_is_returned_as_soon_as_its_end_is_certain() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("Yes.") == []
    assert [clause.text for clause in splitter.feed(" I")] == ["Yes."]


def test_the_first_clause_ends_at_an_early_comma_and_later_ones_do_not() -> None:
    assert texts("Well my friend, yes. In short, it is blue.") == [
        "Well my friend,",
        "yes.",
        "In short, it is blue.",
    ]


def test_a_long_clause_is_split_at_the_length_limit() -> None:
    clauses = split(" ".join(f"word{n}" for n in range(40)))
    assert [len(clause.words) for clause in clauses] == [10, 14, 16]
    assert not clauses[0].ends_sentence


def test_the_first_clause_ends_where_a_phrase_ends_because_the_user_waits_for_it() -> None:
    assert texts("The sky looks blue because the air scatters the blue light more.") == [
        "The sky looks blue",
        "because the air scatters the blue light more.",
    ]
    assert texts("The largest ocean on Earth is the Pacific Ocean.") == [
        "The largest ocean on Earth is",
        "the Pacific Ocean.",
    ]


def test_no_clause_ends_between_a_number_and_its_unit_or_after_a_preposition() -> None:
    assert texts("The table is about 30 in wide.") == ["The table is about 30 in wide."]
    assert texts("We walk home over the old bridge.")[0] == "We walk home over the old bridge."


def test_abbreviations_and_decimals_do_not_end_a_sentence() -> None:
    assert texts("Dr. Smith lives in the U.S. today.") == ["Dr. Smith lives in the U.S. today."]
    assert texts("It costs 3.5 units.") == ["It costs 3.5 units."]
    assert ends_sentence("No.")
    assert ends_sentence('done."')
    assert not ends_sentence("e.g.")


def test_a_new_line_ends_a_clause_and_its_bullet_is_dropped() -> None:
    assert texts("Two things\n- **apples**\n- pears") == ["Two things", "apples", "pears"]


def test_tokens_belong_to_the_words_they_form() -> None:
    splitter = ClauseSplitter()
    for piece in ["Whis", "kers", " is", " a", " ", "7", "."]:
        splitter.feed(piece)
    (clause,) = splitter.flush()
    assert [(word.text, word.tokens) for word in clause.words] == [
        ("Whiskers", 2),
        ("is", 1),
        ("a", 1),
        ("7.", 3),
    ]


def test_a_lone_mark_stays_with_the_word_before_it() -> None:
    words = [word.text for clause in split("Paris – of course – is one.") for word in clause.words]
    assert words == ["Paris –", "of", "course –", "is", "one."]


def test_text_without_a_spoken_form_is_no_clause() -> None:
    assert split("... — !") == []


@given(st.text(max_size=200), st.integers(min_value=1, max_value=7))
def test_every_speakable_character_is_returned_once_and_in_order(text: str, size: int) -> None:
    splitter = ClauseSplitter()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    clauses = [clause for piece in pieces for clause in splitter.feed(piece)] + splitter.flush()
    whole = ClauseSplitter()
    at_once = whole.feed(text) + whole.flush()
    assert " ".join(c.text for c in clauses) == " ".join(c.text for c in at_once)
    assert all(word.text and word.tokens >= 1 for clause in clauses for word in clause.words)


TELESCOPE = (
    "A telescope is a magnifier of images of distant objects, such as planets, that are far away – "
    "like Mars. Dr. Galilei used it at 9 p.m. And, in 1609, it was 30 in long."
)


def test_the_words_of_an_answer_are_cut_as_their_text() -> None:
    words = words_of(TELESCOPE)
    clauses = list(clauses_of(words))
    assert [clause.text for clause in clauses] == texts(TELESCOPE)
    assert [clause.ends_sentence for clause in clauses] == [
        clause.ends_sentence for clause in split(TELESCOPE)
    ]
    assert tuple(word for clause in clauses for word in clause.words) == words


def test_the_words_of_a_chinese_answer_stay_together() -> None:
    text = "望远镜是一种仪器，可以看到很远的东西，例如行星。它有50厘米长。"
    words = words_of(text, "zh")
    splitter = ClauseSplitter("zh")
    whole = [*splitter.feed(text), *splitter.flush()]
    assert [clause.text for clause in clauses_of(words, "zh")] == [one.text for one in whole]


@given(st.text(alphabet="aZ9 .,!—–'\"(°%", max_size=80))
def test_no_word_is_lost_by_cutting(text: str) -> None:
    words = words_of(text)
    assert tuple(word for clause in clauses_of(words) for word in clause.words) == words


def test_a_long_answer_that_is_known_is_spoken_clause_by_clause() -> None:
    """The first sentence would be late, or spoken by another voice."""
    words = words_of(TELESCOPE)
    reply = Reply(
        lambda: FixedText(""),
        None,
        StageCosts(),
        12,
        UnfinishedReply(words, more=False),
        AnswerGuard(filter_obscene=False),
        begun=False,
    )
    clauses = list(reply._clauses())
    assert [clause.text for clause in clauses] == texts(TELESCOPE)
    assert max(len(clause.words) for clause in clauses[:2]) < 10
