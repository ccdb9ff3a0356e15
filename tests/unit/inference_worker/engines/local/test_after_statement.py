"""Questions behind a statement in one breath, with and without marks."""

from dataclasses import replace

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.listening import REACTIONS
from support.situations import NOW


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("I'm in a hurry. What time is it?", "It is 2:05 PM."),
        ("I'm in a hurry, what time is it?", "It is 2:05 PM."),
        ("i am late what time is it", "It is 2:05 PM."),
        ("We're baking a cake. How many grams are in a pound?", "1 pound is about 453.59 grams."),
        ("We're baking a cake, how many grams are in a pound?", "1 pound is about 453.59 grams."),
        ("My homework is hard. What's 17 times 23?", "17 times 23 is 391."),
        ("my homework is hard so what's 17 times 23", "17 times 23 is 391."),
        ("It's late here. What time is it in Tokyo?", "In Tokyo it is 11:05 PM."),
        (
            "I'm going to Peru. What's the currency there?",
            "That sounds good. The currency of Peru is the sol.",
        ),
        ("I've been to Italy, what's the capital there?", "The capital of Italy is Rome."),
        ("I weigh twelve stone, how many kilos is that?", "12 stone are about 76.2 kilograms."),
        (
            "I'm five foot eleven. What's that in centimetres?",
            "5 feet and 11 inches are 180.34 centimetres.",
        ),
        (
            "i'm five foot eleven what's that in centimetres",
            "5 feet and 11 inches are 180.34 centimetres.",
        ),
        (
            "my friend is from norway what's the capital of norway",
            "The capital of Norway is Oslo.",
        ),
        (
            "my train leaves at four fifteen how long have I got",
            "It is 2 hours and 10 minutes until 4:15 PM.",
        ),
        (
            "I was born in nineteen seventy how old am I",
            "You are 55 or 56 years old, before or after your birthday this year.",
        ),
        (
            "The children are asleep. How many days until Christmas?",
            "It is 27 days until Christmas.",
        ),
        (
            "We go out soon, what is the weather like?",
            "I have no access to the internet, so I do not know the weather.",
        ),
    ],
)
def test_the_question_is_answered_by_its_rule(said: str, known: str) -> None:
    assert answer(said, NOW) == known


def test_a_question_of_many_words_is_not_cut() -> None:
    before = replace(NOW, said=("What's the capital of Canada?",))
    assert "Ottawa" not in (answer("how many provinces does it have", before) or "")


def test_a_quantity_of_the_turn_before_is_converted() -> None:
    before = replace(NOW, said=("I weigh 12 stone.",), previous="I see. Tell me more about it.")
    assert answer("How many kilos is that?", before) == "12 stone are about 76.2 kilograms."


@pytest.mark.parametrize(
    "said",
    [
        "I've got the flu what should I do",
        "my phone battery dies really fast too any ideas",
        "My boss wants me to work on sunday can he do that",
        "I have two cups of flour how many grams is that",
        "we lost the game again how could they do that",
        "my cat sleeps all day should i take her to the vet",
        "I want to start running, any tips",
        "I didn't ask that.",
        "That has nothing to do with my question.",
    ],
)
def test_no_reaction_takes_the_place_of_an_answer(said: str) -> None:
    assert answer(said, NOW) not in REACTIONS


@pytest.mark.parametrize(
    "said",
    [
        "I know what is wrong with me.",
        "My boss told me what should be done.",
        "I bought a car which is really fast.",
        "My sister who is a nurse came to see me.",
        "I ran as fast as I could and then I fell.",
        "I met my neighbour, who is a doctor.",
        "My brother found out how much it was.",
        "I was happy when I saw my dog.",
        "I had no idea how long the film was.",
        "We had so many ideas for my party.",
    ],
)
def test_a_statement_with_a_clause_is_listened_to(said: str) -> None:
    assert answer(said, NOW) in REACTIONS


@pytest.mark.parametrize(
    "said",
    [
        "It's noon in London, what time is it in Tokyo?",
        "If it is noon, what time is it?",
        "Let's say it is late, what time is it?",
        "She always asks, what time is it?",
        "My song is called what is the capital of norway",
    ],
)
def test_what_is_not_asked_of_now_is_not_answered(said: str) -> None:
    known = answer(said, NOW) or ""
    assert not any(answered in known for answered in ("2:05", "11:05", "Oslo"))
