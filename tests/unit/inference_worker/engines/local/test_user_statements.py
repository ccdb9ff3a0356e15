"""What the user asks of their own life: answered with what they told, never invented."""

from dataclasses import replace

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.sight.scene import Scene
from support.situations import NOW

NOT_TOLD = "You have not told me that yet."


def told(*said: str) -> Situation:
    return replace(NOW, said=said, previous="I see. Tell me more about it.")


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("I'm allergic to peanuts.", "What am I allergic to?"),
        ("I'm allergic to peanuts.", "do you remember what i'm allergic to"),
        ("I have two brothers and a sister.", "How many brothers do I have?"),
        ("I have two brothers.", "how many brothers did I say I have"),
        ("My daughter is learning the violin.", "What is my daughter learning?"),
        ("I live with my uncle and two cats.", "Who do I live with?"),
        ("My sister has long red hair.", "What colour is my sister's hair?"),
        ("I parked on level four.", "Where did I park?"),
        ("i left it there, i parked on level four", "Tell me, where did I say I parked?"),
        ("I'm off to Japan in March.", "what country did I say I was going to"),
        ("I'm flying to Tokyo in March.", "Where am I going?"),
        ("It's my husband's birthday on Saturday.", "whose birthday did I say it was"),
        ("I used to drive a bus", "what did I tell you I used to do"),
        ("My dog is a labrador.", "What breed is my dog?"),
        ("he's a labrador", "what breed did I say he was"),
        ("I have lived in Bristol for ten years.", "How long have I lived in Bristol?"),
        ("I had soup for lunch today.", "What did I have for lunch?"),
        ("My sister is a vet and my brother is a chef.", "What does my sister do?"),
        ("I drive an old Volvo.", "what car do I drive"),
        ("I bought a red bicycle last week.", "What colour is my bicycle?"),
        ("My train leaves at six thirty.", "When does my train leave?"),
        ("My train is at six.", "What time does my train leave?"),
        ("My flight leaves at nine in the morning.", "OK. When does my flight leave?"),
        ("My bus comes at eight.", "When is my bus?"),
        ("My appointment is on Friday at ten.", "When is my appointment?"),
        ("I am retired now.", "Am I retired?"),
        ("We got married in May.", "Am I married?"),
        ("We have a dog.", "Do I have a dog?"),
    ],
)
def test_a_question_gets_the_sentence_that_told_it(said: str, question: str) -> None:
    assert answer(question, told("Hello.", said, "Nice.")) == f'You said: "{said}"'


def test_the_sentence_before_says_who_is_meant() -> None:
    said = ("My neighbour is noisy.", "He plays the drums.")
    quoted = answer("What does my neighbour play?", told(*said))
    assert quoted == 'You said: "My neighbour is noisy. He plays the drums."'


def test_the_newest_sentence_counts() -> None:
    said = ("My train is at six.", "Sorry, my train is at seven.")
    assert answer("When is my train?", told(*said)) == f'You said: "{said[1]}"'


@pytest.mark.parametrize(
    "question",
    [
        "what's my blood type",
        "What's my mother's name?",
        "what's my husband called",
        "What is the name of my dog?",
        "what's my star sign",
        "What's my shoe size?",
        "am I married",
        "Am I allergic to anything?",
        "What's in my bag?",
        "how many kids do I have",
        "do I have any pets",
        "how tall am I",
        "Where did I park my car?",
        "what did I have for breakfast",
    ],
)
def test_what_the_user_has_not_told_is_not_invented(question: str) -> None:
    assert answer(question, NOW) == NOT_TOLD
    assert answer(question, told("I like it here.", "It is nice.")) == NOT_TOLD


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("My laptop is slow.", "What is wrong with my laptop?"),
        ("My laptop is slow.", "Why is my laptop slow?"),
        ("My dog is sick.", "What breed is my dog?"),
        ("My dog is sick.", "What is my dog sick with?"),
        ("My dog is seven years old.", "How old is my dog in human years?"),
        ("I want to plant tomatoes in May.", "When do I plant tomatoes?"),
        ("I have eggs and milk.", "How many eggs do I need?"),
        ("I boil eggs.", "How long do I boil eggs?"),
        ("I have three cats and got two more.", "How many cats do I have now?"),
        ("I think it is nice.", "What am I thinking?"),
        ("I talk a lot.", "What am I talking about?"),
        ("That is wrong, I said it.", "What did I do wrong?"),
        ("I have to go at five.", "What do I have to do?"),
        ("Add milk to my shopping list.", "What is on my shopping list?"),
        ("Does my train leave at six?", "When does my train leave?"),
        ("My husband Tom is tall.", "What's my husband called?"),
        ("I've got two dogs, Biscuit and Pepper.", "What's my dog called?"),
        ("my brother tom is tall", "What's my brother's name?"),
        ("This is my husband. Call him Tom.", "What's my husband called?"),
        ("I am a Leo.", "what's my star sign"),
        ("We have a wedding in May.", "Am I married?"),
        ("We have a parrot.", "do I have any pets"),
        ("I have two sons.", "How many kids do I have?"),
        ("I cannot eat nuts.", "What am I allergic to?"),
        ("My kitchen is small.", "What is my IP address?"),
        ("I said so.", "What is my best option?"),
        ("My son is ill.", "What is my purpose?"),
    ],
)
def test_nothing_is_quoted_or_denied_by_mistake(said: str, question: str) -> None:
    answered = answer(question, told(said)) or ""
    assert not answered.startswith(("You said", NOT_TOLD))


def test_what_the_camera_shows_is_better_known() -> None:
    seen = replace(told("I have a red shirt."), scene=Scene())
    assert "You said" not in (answer("What colour is my shirt?", seen) or "")


@pytest.mark.parametrize("question", ["What am I allergic to?", "What's my blood type?"])
def test_a_larger_model_answers_itself(question: str) -> None:
    assert answer(question, replace(told("I'm allergic to nuts."), small_talk=False)) is None


@pytest.mark.parametrize(
    ("said", "age"),
    [
        ("I'm sixty seven and I retired last month.", "You said that you are 67."),
        (
            "I was born in nineteen seventy.",
            "You are 55 or 56 years old, before or after your birthday this year.",
        ),
        ("I am 5 and a half feet tall.", "I do not know how old you are."),
    ],
)
@pytest.mark.parametrize("question", ["How old am I?", "how old did I say I was"])
def test_the_age_within_a_longer_sentence(said: str, age: str, question: str) -> None:
    assert answer(question, told(said)) == age
