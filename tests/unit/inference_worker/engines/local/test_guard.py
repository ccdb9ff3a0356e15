"""The end of answers that repeat themselves or become obscene."""

import json
import re
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.local.guard.answer_guard import (
    CLOSING,
    NO_CONTENT,
    AnswerGuard,
    Repeats,
    cleaned,
    mourns,
)
from antiphon.inference_worker.engines.local.options import LocalOptions


def guarded(
    text: str,
    *,
    filter_obscene: bool = True,
    ends_empty: bool = False,
    repeats: Repeats = Repeats.FEW,
) -> str:
    """`text` through a guard, in pieces as a tokeniser makes them."""
    guard = AnswerGuard(filter_obscene=filter_obscene, ends_empty=ends_empty, repeats=repeats)
    said = "".join(guard.feed(piece) for piece in re.findall(r"\s?\S{1,4}|\s", text))
    return said + guard.flush()


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Italy is Rome.\n\n* It is old.\n* It is big. ",
        "I am here. I am here. I am not.",
        "No. No. No. No.",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.",
        "Row, row, row your boat, gently down the stream.",
        "```\nfor i in range(10):\n for i in range(10):\n  for i in range(10):\n   pass\n```",
        "",
        "  ",
    ],
)
def test_a_good_answer_stays_as_it_is(text: str) -> None:
    assert guarded(text) == text


def test_a_sentence_that_repeats_is_said_twice() -> None:
    loop = "Yes, I am happy. " * 30
    assert guarded(f"Hello. {loop}").strip() == "Hello. Yes, I am happy. Yes, I am happy."


def test_a_loop_with_quotation_marks_ends_after_two_rounds() -> None:
    said = guarded('The man laughed, "That\'s me," and smiled. ' * 20)
    assert said.count("laughed") == 2
    assert said.rstrip().endswith("smiled.")


def test_a_phrase_without_sentences_ends() -> None:
    said = guarded("the answer is that the question is how " * 30)
    assert said.count("question") <= 3


@pytest.mark.parametrize(
    "word",
    [
        "fuck",
        "Fucking",
        "motherfucker",
        "shit!",
        '"bullshit"',
        "assholes,",
        "blow job",
        "ass hole",
        "Rim jobs,",
        "blow-job",
        "pe-nis",
        "oh—shit",
    ],
)
def test_an_obscene_answer_ends_with_a_neutral_sentence(word: str) -> None:
    said = guarded(f"The man said {word} and left. He went home.")
    assert said.endswith(CLOSING)
    assert word.split()[-1] not in said
    assert "home" not in said


def test_the_filter_can_be_off() -> None:
    text = "The man said shit and left."
    assert guarded(text, filter_obscene=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "Scunthorpe and Penistone are towns in England.",
        "The class will assess the cockpit, the peacock and the cocktail.",
        "Charles Dickens wrote Oliver Twist. Moby Dick is by Melville.",
        "Essex, Sussex and Middlesex; a sextant; shiitake mushrooms; Matsushita.",
        "Pass the bass, the grass, the Titanic, a title and the analysis.",
        "The great tit is a bird. He is the titular king of Nigeria and Niger.",
        "The pen is mightier than the sword. What is a pen? Is it blue?",
        "The pen—is it blue? Here is the pen/is it blue. My pen.Is it blue? Take your pen. Is it blue?",
        "People who ring the bell, and who res. Deep Throat was a source.",
        "That was a blow. Job losses follow. It hit the donkey, the ass. Hole in one!",
        "On the other hand jobs are scarce. Dick heads the company.",
    ],
)
def test_no_false_alarm(text: str) -> None:
    assert guarded(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry for your loss. I'm here to help. What's your name?",
        "I'm sorry for your lost tomorrow.",
        "I'm sorry, I'm unable to find the information you requested.",
        "I'm here to assist you with any questions or problems.",
        "As an AI, I cannot do that.",
        "You're asking about a place, not a person.",
        "I'm Antiphon, a small voice assistant. You do not know the weather.",
        "A helpful assistant, I'm sorry for your troubles.",
        "A very important answer, but a very simple one.",
        "Oh no, that's a very interesting topic.",
        "That is a great question. It's a really interesting topic!",
    ],
)
def test_an_answer_without_content_is_replaced(text: str) -> None:
    assert guarded(text, ends_empty=True) == NO_CONTENT
    assert guarded(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry for being late.",
        "I'm here.",
        "As",
        "I'm",
        "The sky is blue. I'm a painter.",
        "That's a great idea. What is it?",
        "It's a",
        "A simple question mark is a sign. It ends a question.",
    ],
)
def test_other_openings_stay(text: str) -> None:
    assert guarded(text, ends_empty=True) == text


@pytest.mark.parametrize(
    "rest",
    [
        " I'm a helpful assistant. I can do a lot.",
        " I'm not sure. I'm not sure.",
        " As an AI I see no sky.",
        " You are a helpful assistant.",
        " The sky is blue.",
    ],
)
def test_an_answer_ends_before_it_becomes_empty_or_repeats_itself(rest: str) -> None:
    assert guarded(f"The sky is blue.{rest}", ends_empty=True) == "The sky is blue."
    assert guarded(f"The sky is blue.{rest}") == f"The sky is blue.{rest}"


def test_a_sentence_about_the_question_is_left_out() -> None:
    text = "Oh no, that's a very important question. An octopus has three hearts. That's a great topic."
    assert guarded(text, ends_empty=True) == "An octopus has three hearts."
    assert guarded(text) == text


def test_an_answer_may_be_sorry_for_a_loss() -> None:
    assert mourns("My hamster has died.")
    assert not mourns("My hamster is called Dan.")


REPEATED = (
    "Hello, hello, hello, hello, hello, hello, hello, hello, hello, hello!",
    "It says: We are open. We are open. We are open. We are open.",
    "It says: 9. Tea 9. Milk 9. Sugar",
    "H, A, H, A, H, A, H, A, H, A, H, A.",
)


@pytest.mark.parametrize("text", REPEATED)
def test_a_text_that_no_model_wrote_may_repeat_itself(text: str) -> None:
    assert cleaned(text) == text
    assert guarded(text, filter_obscene=False, repeats=Repeats.ALL) == text


OBJECTS = [{"name": name, "age": 20, "city": "Rome", "role": "user"} for name in ("Ann",) * 12]
JSON = (json.dumps(OBJECTS, indent=1), f"Here it is: {json.dumps(OBJECTS)}", f"{[0] * 90}")
CODE = (
    "Here:\n\n" + "    print('a b c d e f')\n" * 12,
    "```\n" + "print('a b c d e f')\n" * 12 + "```\nThat was it.",
    "void f() {\n" + "  step(a, b, c, d, e);\n" * 12 + "}\nThat was it.",
)


@pytest.mark.parametrize("repeats", Repeats)
@pytest.mark.parametrize("text", [*JSON, *CODE])
def test_json_and_code_stay_as_they_are(text: str, repeats: Repeats) -> None:
    assert guarded(text, repeats=repeats) == text


LONG = (
    "The president of the United States of America lives in the White House. Congress of the United States"
    " of America meets nearby. The flag of the United States of America has fifty stars.",
    "\n".join(f"Question {number}: What is the capital of {number}?" for number in range(9)),
    "\n".join(f"3 times {number} is {3 * number}." for number in range(1, 30)),
    "Row, row, row your boat,\nGently down the stream.\nLife is but a dream.\n" * 4,
    "| Name | Taste |\n|---|---|\n" + "| Plum | sweet |\n" * 5,
    "0 0 0 0 0 0 0 0\n" * 8,
    "1. Fruit\n   1. Apple\n   2. Pear\n2. Nuts\n",
    "Step 1:\n1. Open it.\n\nStep 2:\n1. Close it.\n",
    "No. " * 20,
)


@pytest.mark.parametrize("repeats", [Repeats.ALL, Repeats.NO_LOOP])
@pytest.mark.parametrize("text", LONG)
def test_a_larger_model_may_repeat_itself(text: str, repeats: Repeats) -> None:
    assert guarded(text, repeats=repeats) == text


@pytest.mark.parametrize(
    "round_",
    [
        "no ",
        "I am happy. ",
        "The answer is 42 because the answer is 42. ",
        "* It is big.\n",
        "我很高兴。",
        " ".join(f"word{number}" for number in range(50)) + " ",
    ],
)
def test_a_loop_of_a_larger_model_ends(round_: str) -> None:
    loop = f"Hello. {round_ * 200}"
    said = guarded(loop, repeats=Repeats.NO_LOOP)
    assert 5 <= said.count(round_.strip()) < 31
    assert guarded(loop, repeats=Repeats.ALL) == loop


def test_an_open_bracket_hides_no_loop_after_its_paragraph() -> None:
    said = guarded("It is in [0, 1).\n\n" + "I am happy. " * 200, repeats=Repeats.NO_LOOP)
    assert said.count("happy") < 12


def test_words_around_code_are_no_loop() -> None:
    text = "".join(f"Then run this:\n```\nstep {number}\n```\n" for number in range(40))
    assert guarded(text, repeats=Repeats.NO_LOOP) == text


def test_how_much_a_model_may_repeat_depends_on_its_size() -> None:
    server = LocalOptions(llm_url="http://localhost:1/v1", llm_model="large")
    assert LocalOptions().repeats is Repeats.FEW
    assert LocalOptions(model_path=Path("larger.gguf")).repeats is Repeats.NO_LOOP
    assert server.repeats is Repeats.ALL


def test_a_complete_text_is_cleaned() -> None:
    assert cleaned("Nice to meet you, Peter.") == "Nice to meet you, Peter."
    assert cleaned("Nice to meet you, Fucker.") == f"Nice to meet you, {CLOSING}"
    assert cleaned("Shit. Shit.") == CLOSING


@pytest.mark.parametrize(
    "answer", ["1. 1. 1. 2. 3.", "1.\n1.\n1.\n", "2) 2) 2)", "**1.** **1.** 2."]
)
def test_a_list_of_the_same_numbers_is_not_said(answer: str) -> None:
    assert guarded(answer) == NO_CONTENT


def test_empty_items_end_an_answer() -> None:
    assert guarded("Do it like this: 1. 1. 2. 3.").strip() == "Do it like this:"
    assert guarded("1. Wash it. 2. 2. 2.").strip() == "1. Wash it."


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("1. Wash the rice.\n1. Boil it.\n1. Eat.", "1. Wash the rice.\n2. Boil it.\n3. Eat."),
        (
            "1. One step.\n2. Another.\n\nOr: 1. Do it.",
            "1. One step.\n2. Another.\n\nOr: 1. Do it.",
        ),
        ("1. 2. 3. 4. 5.", "1. 2. 3. 4. 5."),
        ("3. 2. 1. Go!", "3. 2. 1. Go!"),
        ("It is 4. Yes, it is 4.", "It is 4. Yes, it is 4."),
        ("12.", "12."),
        ("```\n1. 1. 1.\n```", "```\n1. 1. 1.\n```"),
    ],
)
def test_the_items_of_a_list_count_up(answer: str, said: str) -> None:
    assert guarded(answer) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "A beginner should not know the weather, news, or prices.",
            f"A beginner should not know the… {NO_CONTENT}",
        ),
        ("I'm a hard-boiled, no-name AI designed to provide information.", NO_CONTENT),
        ("I'm not a weather-related AI, but I can sing.", NO_CONTENT),
        ("I am a helpful assistant. I can help you.", NO_CONTENT),
        (
            "Yes. I'm not talking about the weather, the news, or prices.",
            "Yes. I'm not talking about the…",
        ),
        ("It is warm. I'm just an AI. I like it.", "It is warm. "),
        ("The weather is nice, and prices are low.", "The weather is nice, and prices are low."),
        ("I'm a small bird. I can fly.", "I'm a small bird. I can fly."),
        ("A helpful friend is a small miracle.", "A helpful friend is a small miracle."),
        ("I am a", "I am a"),
    ],
)
def test_a_part_of_the_prompt_is_not_said(text: str, said: str) -> None:
    assert guarded(text, ends_empty=True).rstrip() == said.rstrip()
    assert guarded(text) == text


SAID = ("You can make a lemon cake, but not now.", "That is very good.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{SAID[0]} It is good.", NO_CONTENT),
        (f"Of course. {SAID[0]} It is good.", "Of course."),
        ("You can make a lemon cake, but not", NO_CONTENT),
        ("You can make a lemon pie. It is good.", "You can make a lemon pie. It is good."),
        (f"{SAID[1]} I like it.", f"{SAID[1]} I like it."),
    ],
)
def test_a_sentence_of_the_answer_before_is_not_said_again(text: str, said: str) -> None:
    guard = AnswerGuard(filter_obscene=True, ends_empty=True, said=SAID)
    spoken = "".join(guard.feed(piece) for piece in re.findall(r"\s?\S{1,4}|\s", text))
    assert (spoken + guard.flush()).rstrip() == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Pack a light, a light, a light.", "Pack a light, a light."),
        (
            "You can have a pizza, a salad, a cake, a cake, a salad, a cake, a cookie, a cake.",
            "You can have a pizza, a salad, a cake, a cake, a salad.",
        ),
        (
            "Buy a phone, a camera, camera, camera, and a laptop.",
            "Buy a phone, a camera, camera.",
        ),
        ("No, no, no, no. That is it.", "No, no, no, no. That is it."),
        (
            "Merrily, merrily, merrily, life is a dream.",
            "Merrily, merrily, merrily, life is a dream.",
        ),
        ("Pack a tent, a lamp, a rope, and a map.", "Pack a tent, a lamp, a rope, and a map."),
        ("Red wine, white wine, and rose wine.", "Red wine, white wine, and rose wine."),
        ("Add a cup, a cup of milk, a cup of oil.", "Add a cup, a cup of milk, a cup of oil."),
    ],
)
def test_a_list_ends_before_a_thing_comes_a_third_time(text: str, said: str) -> None:
    assert guarded(text) == said
    assert guarded(text, repeats=Repeats.ALL) == text
