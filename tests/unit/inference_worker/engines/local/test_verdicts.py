"""What the user says of the assistant: agreement, complaints, and the beginning of news."""

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from support.situations import NOW

AGREED = "I am glad that we agree."
OTHER_WORDS = "I am sorry. Please ask in other words."


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("You're right.", AGREED),
        ("yeah you're right", AGREED),
        ("I guess you're probably right about that.", AGREED),
        ("I agree with you.", AGREED),
        ("I totally agree.", AGREED),
        ("You have a point.", AGREED),
        ("That's a very good point.", AGREED),
        ("Fine, whatever you say.", "All right. What shall we talk about?"),
        ("If you say so.", "All right. What shall we talk about?"),
        ("You didn't answer my question.", OTHER_WORDS),
        ("but you haven't answered me", OTHER_WORDS),
        ("That doesn't answer my question.", OTHER_WORDS),
        ("You're not making any sense.", OTHER_WORDS),
        ("What are you talking about?", OTHER_WORDS),
        ("what on earth are you on about", OTHER_WORDS),
        ("I told you that already.", OTHER_WORDS),
        ("I've just said that.", OTHER_WORDS),
        ("That has nothing to do with my question.", OTHER_WORDS),
        ("What's that got to do with it?", OTHER_WORDS),
        ("I didn't ask that.", OTHER_WORDS),
        ("prove it", "I cannot prove it. I make mistakes, so check what matters."),
        ("guess what", "What?"),
        ("You know what?", "What?"),
        ("Hey, guess what happened today!", "What?"),
        ("You'll never believe this.", "What?"),
        ("I've got some good news.", "What?"),
    ],
)
def test_what_people_say_of_an_answer_has_a_rule(said: str, answered: str) -> None:
    assert answer(said, NOW) == answered


@pytest.mark.parametrize(
    "said",
    [
        "Am I right?",
        "You are right handed.",
        "Turn right.",
        "I agreed to sell my house.",
        "I agree that the film was too long.",
        "You have a point of view.",
        "What are you talking about tomorrow?",
        "Do you know what time it is?",
        "You know what I mean?",
        "I have some news about the election.",
        "He told me that already.",
        "I told you about my dog.",
        "I already told my boss.",
        "That is a point on the map.",
        "How do you know when pasta is done?",
        "How do you work out a percentage?",
        "What does Newton have to do with gravity?",
        "The answer has nothing to do with luck.",
        "Whatever you do, be careful.",
        "Prove that the root of two is irrational.",
    ],
)
def test_other_words_are_no_verdict(said: str) -> None:
    verdicts = {AGREED, OTHER_WORDS, "What?", "All right. What shall we talk about?"}
    answered = answer(said, NOW) or ""
    assert answered not in verdicts
    assert not answered.startswith(("I cannot prove", "Sums, dates"))
