"""What the bundled model reads of a conversation."""

import pytest

from antiphon.inference_worker.engines.local.dialogue import CUT, LlmMessage
from antiphon.inference_worker.engines.local.doubt import UNSURE
from antiphon.inference_worker.engines.local.guard.answer_guard import NO_CONTENT
from antiphon.inference_worker.engines.local.recall import recalled, said_already
from antiphon.inference_worker.engines.local.rules.about_itself import LIMITS
from antiphon.inference_worker.engines.local.rules.follow_up import whole_question
from antiphon.inference_worker.engines.local.rules.listening import REACTIONS

SYSTEM: LlmMessage = {"role": "system", "content": "Be brief."}


def conversation(*texts: str) -> list[LlmMessage]:
    """`texts` are of the user and of the assistant in turns."""
    roles = ("user", "assistant")
    said = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return [SYSTEM, *said]


PAST = (
    *("Why are bees important?", "They pollinate plants."),
    *("What is your name?", "My name is Antiphon."),
    *("Who painted the Mona Lisa?", "Leonardo da Vinci."),
)


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("How do I cook rice?", []),
        ("What is the tallest mountain?", []),
        ("Okay, then what is the tallest mountain?", []),
        ("By the way, so how do I cook rice?", []),
        ("Where is it now?", [2]),
        ("Really?", [2]),
        ("What happens next?", [2]),
        ("Do bees sleep?", [0]),
        ("Does it have bees?", [0, 2]),
        ("Are plants painted, or bees, or names?", [1, 2]),
    ],
)
def test_exchanges_that_a_question_refers_to(question: str, kept: list[int]) -> None:
    exchanges = [PAST[2 * place : 2 * place + 2] for place in kept]
    texts = [text for exchange in exchanges for text in exchange]
    assert recalled(conversation(*PAST, question)) == conversation(*texts, question)


@pytest.mark.parametrize("apology", [UNSURE, NO_CONTENT, f"{LIMITS[0]} the weather."])
def test_an_apology_is_recalled_only_for_its_follow_up(apology: str) -> None:
    """A question with the same words would get the apology again."""
    past = (*PAST, "How tall is the Eiffel Tower?", apology)
    follow_up = recalled(conversation(*past, "Who built it?"))
    assert follow_up == conversation(*past[-2:], "Who built it?")
    again = recalled(conversation(*past, "Where does the Eiffel Tower stand?"))
    assert again == conversation("Where does the Eiffel Tower stand?")


def test_a_chain_of_follow_ups_keeps_its_first_question() -> None:
    past = (*PAST, "How many works did he finish?", UNSURE)
    assert recalled(conversation(*past, "Was he French?")) == conversation(
        *past[-4:], "Was he French?"
    )


def test_one_apology_is_recalled_at_most() -> None:
    past = ("How tall is the Eiffel Tower?", UNSURE, "And how old is it?", UNSURE)
    assert recalled(conversation(*past, "Who built it?")) == conversation(
        *past[-2:], "Who built it?"
    )


def test_what_is_no_question_follows_examples_and_the_last_exchange() -> None:
    said = recalled(conversation(*PAST, "My neighbour plays the trumpet."))
    assert said[0] == SYSTEM
    assert said[-3:] == conversation(*PAST[-2:], "My neighbour plays the trumpet.")[1:]
    assert [message["role"] for message in said[1:]] == ["user", "assistant"] * 3 + ["user"]
    plain = recalled(conversation(*PAST, "My neighbour plays the trumpet."), examples=False)
    assert plain == [SYSTEM, *said[-3:]]


@pytest.mark.parametrize("reaction", sorted(REACTIONS))
def test_the_model_reads_a_statement_with_the_question_and_without_the_reaction(
    reaction: str,
) -> None:
    said = conversation("I'm allergic to peanuts", reaction, "What am I allergic to?")
    assert recalled(said) == conversation("I'm allergic to peanuts. What am I allergic to?")


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (
            ("My sofa is red!", "I see. Tell me" + CUT, "How do I get it out?"),
            ("My sofa is red! How do I get it out?",),
        ),
        (
            ("I had a dream.", "I see. What happened then?", "How do plants grow?"),
            ("How do plants grow?",),
        ),
        (
            ("I had soup.", "I see. What happened then?", "Was it good?", "I hope so.", "And now?"),
            ("I had soup. Was it good?", "I hope so.", "And now?"),
        ),
        (
            (
                *("I live with my uncle.", "I understand. Please go on."),
                *("He is old.", "I see. Tell me more about it."),
                *("He has a cat.", "I understand. Please go on."),
                *("It is black.", "I see. Tell me more about it."),
                *("Who do I live with?",),
            ),
            ("I live with my uncle. He has a cat. It is black. Who do I live with?",),
        ),
        (("I see a dog.", "I see.", "Is it big?"), ("I see a dog. Is it big?",)),
        (("I see a dog.", "I see it.", "Is it big?"), ("I see a dog.", "I see it.", "Is it big?")),
    ],
)
def test_statements_are_read_with_what_refers_to_them(
    texts: tuple[str, ...], read: tuple[str, ...]
) -> None:
    assert recalled(conversation(*texts)) == conversation(*read)


def test_an_answer_that_is_continued_stays_at_the_end() -> None:
    said = conversation(*PAST, "How do I cook rice?", "Boil it")
    assert recalled(said) == conversation("How do I cook rice?", "Boil it")


@pytest.mark.parametrize(
    "said",
    [
        [SYSTEM],
        [{"role": "user", "content": "Hello?"}],
        [SYSTEM, {"role": "user", "content": [{"type": "text", "text": "What is it?"}]}],
        [*conversation("What time is it?", ""), {"role": "tool", "content": "Noon."}],
    ],
)
def test_other_messages_stay_as_they_are(said: list[LlmMessage]) -> None:
    assert recalled(said) == said


@pytest.mark.parametrize(
    ("earlier", "text", "whole"),
    [
        (["What is the capital of France?"], "And of Italy?", "What is the capital of Italy?"),
        (
            ["What is the capital of France?", "And of Italy?"],
            "What about Spain?",
            "What is the capital of Spain?",
        ),
        (["What time is it in New York?"], "And in London?", "What time is it in London?"),
        (["What is 15 percent of 80?"], "and of 90?", "What is 15 percent of 90?"),
        (
            ["Tell me about the moon."],
            "No, I meant the planet Mars.",
            "Tell me about the planet Mars.",
        ),
        (
            ["What is the capital of France?"],
            "No, I said Sweden.",
            "What is the capital of Sweden?",
        ),
        (["What is the capital of Peru?"], "Not Peru, Chile.", "What is the capital of Chile?"),
        (["What is the symbol for water?"], "And gold?", "What is the symbol for gold?"),
        (["How many legs does a spider have?"], "And an ant?", "How many legs does an ant have?"),
        (["Is it open today?"], "What about tomorrow?", "Is it open tomorrow?"),
        (
            ["What is the capital of Peru?", "Thanks.", "Slower."],
            "And Chile?",
            "What is the capital of Chile?",
        ),
        (["Is it open?"], "And on Monday?", "Is it open on Monday?"),
        (
            ["What day is it today?"],
            "And the day after tomorrow?",
            "What day is it the day after tomorrow?",
        ),
        (["What day is it tomorrow?"], "And in two weeks?", "What day is it in two weeks?"),
        (["Is it open on Friday?"], "And on the fifth of May?", "Is it open on the fifth of May?"),
        (["Is it open on Friday?"], "And tomorrow?", "Is it open tomorrow?"),
        (["How many days until Easter?"], "And Christmas?", "How many days until Christmas?"),
        (["How many days until Easter?"], "And Monday?", "How many days until Monday?"),
        (
            ["How long is it until my trip on the third of May?"],
            "And until New Year?",
            "How long is it until New Year?",
        ),
        (["How far is the moon?"], "What about the sun?", "How far is the sun?"),
        (["What is the capital of Peru?"], "And the currency?", "What is the currency of Peru?"),
        (
            ["What is the capital of the Sudan?"],
            "And the currency?",
            "What is the currency of the Sudan?",
        ),
        (["What is the size of the moon?"], "And the sun?", "What is the size of the sun?"),
        (
            ["How tall is the Eiffel Tower?"],
            "And the Statue of Liberty?",
            "How tall is the Statue of Liberty?",
        ),
        (["What is the largest planet?"], "And the smallest?", "What is the smallest planet?"),
        (["Is it open?"], "I meant it.", "I meant it."),
        (["How are you?"], "How about you?", "How about you?"),
        (["Who wrote Emma?"], "And what else did she write?", "And what else did she write?"),
        ([], "And of Italy?", "And of Italy?"),
    ],
)
def test_a_short_question_continues_the_last_one(earlier: list[str], text: str, whole: str) -> None:
    assert whole_question(text, earlier) == whole


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did he smoke?", ["It is big.", "It ended in 1945.", "Yes, it is."]),
        ("When did it end?", ["It is big.", "It ended in 1945.", "Yes, it is."]),
        ("In what year has it ended?", ["It is big.", "Yes, it is."]),
        ("How was it?", []),
    ],
)
def test_sentences_that_another_answer_should_not_repeat(question: str, said: list[str]) -> None:
    past = conversation("One?", "No.", "Two?", "It is big. It ended in 1945.", "How was it?")
    answered: list[LlmMessage] = [{"role": "assistant", "content": "Yes, it is."}]
    asked: list[LlmMessage] = [{"role": "user", "content": question}]
    assert said_already([*past, *answered, *asked]) == said


def test_the_words_of_a_follow_up_are_those_of_the_question_that_it_continues() -> None:
    past = conversation("What is the capital of Italy?", "The capital of Italy is Rome.")
    assert said_already([*past, {"role": "user", "content": "And of Germany?"}]) == []
