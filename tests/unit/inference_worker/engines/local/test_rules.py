"""Answers by rule, for questions as people write them and as the recogniser does."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY, answer
from antiphon.inference_worker.engines.local.rules.manner import Manner, manner_of
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.chat import parse_chat_request

NOW = Situation(datetime(2026, 11, 28, 14, 5, tzinfo=UTC), "1.2.3")

SUMS = {
    "What is seventeen times twenty-three?": "17 times 23 is 391.",
    "what is 12 * 4": "12 times 4 is 48.",
    "What, in seventeen times twenty three": "17 times 23 is 391.",
    "two plus two": "2 plus 2 is 4.",
    "what's 15% of 80": "15 percent of 80 is 12.",
    "How much is fifteen percent of eighty?": "15 percent of 80 is 12.",
    "What percent of 80 is 20?": "20 is 25 percent of 80.",
    "20% off 50": "The result is 40.",
    "What is the square root of 144?": "The square root of 144 is 12.",
    "square root of two": "The square root of 2 is about 1.4142.",
    "what's ten divided by three": "10 divided by 3 is 3 with a remainder of 1, or about 3.3333.",
    "what is the remainder of 20 divided by 5": "20 divided by 5 is 4 with a remainder of 0, or 4.",
    "Can you tell me what 100 minus 37 is, please?": "100 minus 37 is 63.",
    "3 + 4 * 2": "3 plus 4 times 2 is 11.",
    "(3+4)*2 =": "The result is 14.",
    "what is two to the power of ten": "2 to the power of 10 is 1024.",
    "a quarter of two hundred": "A quarter of 200 is 50.",
    "2.5 million divided by 4": "2500000 divided by 4 is 625,000.",
    "one hundred and five plus two thousand three hundred": "105 plus 2300 is 2405.",
    "what is 10 divided by zero": "It is not possible to divide by zero.",
    "what is 7 factorial": "The factorial of 7 is 5040.",
    "what is three point five times two": "3.5 times 2 is 7.",
    "subtract five from twelve": "12 minus 5 is 7.",
}
UNITS = {
    "How many kilometres is five miles?": "5 miles are about 8.05 kilometres.",
    "convert 5 miles to km": "5 miles are about 8.05 kilometres.",
    "what is 100 degrees fahrenheit in celsius": (
        "100 degrees Fahrenheit are about 37.78 degrees Celsius."
    ),
    "20°C in °F": "20 degrees Celsius are 68 degrees Fahrenheit.",
    "what is minus forty celsius in fahrenheit": (
        "-40 degrees Celsius are -40 degrees Fahrenheit."
    ),
    "how many pounds are in ten kilograms": "10 kilograms are about 22.05 pounds.",
    "How many litres are there in a gallon?": "1 gallon is about 3.79 litres.",
    "six foot two in centimeters": "6 feet and 2 inches are 187.96 centimetres.",
    "how many seconds are in an hour": "1 hour is 3600 seconds.",
    "how many months are there in a year": "1 year is 12 months.",
    "60 mph in km/h": "60 miles per hour are about 96.56 kilometres per hour.",
}
DATES = {
    "What time is it?": "It is 2:05 PM.",
    "what's the time": "It is 2:05 PM.",
    "do you know what time it is": "It is 2:05 PM.",
    "What time is it in Tokyo?": "In Tokyo it is 11:05 PM.",
    "what day is it": "Today is Saturday.",
    "What's today's date?": "Today is Saturday, 28 November 2026.",
    "what year is it": "It is 2026.",
    "What day is it tomorrow?": "Tomorrow is Sunday, 29 November 2026.",
    "what date was it three weeks ago": "3 weeks ago was Saturday, 7 November 2026.",
    "How many days until Christmas?": "It is 27 days until Christmas.",
    "how many weeks until christmas": "It is 3 weeks and 6 days until Christmas.",
    "How many days are left until New Year?": "It is 34 days until New Year.",
    "what day was the 4th of July 1999": "4 July 1999 was a Sunday.",
    "what day was the fourth of july nineteen ninety-nine": "4 July 1999 was a Sunday.",
    "When is Easter next year?": "Easter is Sunday, 28 March 2027.",
    "is 2028 a leap year": "Yes, 2028 is a leap year.",
    "how many days does february have": "February has 28 days, and 29 in a leap year.",
    "What month comes after March?": "April comes after March.",
    "What time is it and what day is it?": "It is 2:05 PM. Today is Saturday.",
}
ITSELF = {
    "What is your name?": "Antiphon",
    "whats your name": "Antiphon",
    "Hello, who are you?": "Antiphon",
    "who made you": "developers",
    "What version are you?": "1.2.3",
    "what can you do": "answer simple questions",
    "what can't you do": "cannot",
    "Are you human or a machine?": "computer program",
    "Can you see me?": "cannot see",
    "What's the weather like in Berlin today?": "do not know the weather",
    "will it rain tomorrow": "do not know the weather",
    "what's in the news": "do not know the news",
    "What is the stock price of Apple?": "do not know current prices",
    "How much does a Tesla cost?": "do not know current prices",
    "Who won the game last night?": "do not know the latest results",
    "how is the traffic": "do not know the traffic",
    "Where am I?": "do not know where you are",
    "set a timer for five minutes": "cannot set",
    "turn on the lights": "cannot control",
    "Good morning!": "Good morning!",
    "thanks a lot": "welcome",
    "Thank you, goodbye.": "Goodbye",
    "please speak slower": "I speak more slowly now.",
    "You are talking too fast.": "I speak more slowly now.",
    "That's too slow": "I speak faster now.",
    "louder": "I speak louder now.",
    "I can't hear you well": "I speak louder now.",
    "I want you to lower your voice": "I speak more quietly now.",
    "How do you say thank you in Spanish?": "cannot translate",
    "My name is Peter. What is your name?": "Nice to meet you, Peter. My name is Antiphon.",
    "How do you spell banana?": "B, A, N, A, N, A",
    "tell me a joke": "?",
}
FOREIGN = (
    "法国的首都是哪里？",
    "Какая столица Франции?",
    "Was ist die Hauptstadt von Deutschland?",
    "Quelle est la capitale de la France?",
    "¿Cuál es la capital de España?",
)
FOR_THE_MODEL = (
    "What is the capital of France?",
    "How do I boil an egg?",
    "Help me write an email to my boss.",
    "Write a poem about the weather.",
    "What is weather?",
    "What is time?",
    "What is news?",
    "What is a square root?",
    "Give me three ideas for dinner.",
    "My name is Tom and what should I cook tonight?",
    "What is the opposite of hot?",
    "How does the stock market work?",
    "What is the temperature of the sun?",
    "Who won the world cup in 1998?",
    "What is the date of the battle of Hastings?",
    "How many legs does a spider have?",
    "Who was Charles de Gaulle?",
    "Leonardo da Vinci painted what?",
    "La La Land is a film, no?",
    "It takes two to tango.",
    "And what about Germany?",
    "Stop the war.",
    "x" * 10_000,
    "9 ^ 9 ^ 9 ^ 9",
)


@pytest.mark.parametrize(("question", "expected"), (SUMS | UNITS | DATES).items())
def test_a_calculated_answer(question: str, expected: str) -> None:
    assert answer(question, NOW) == expected


@pytest.mark.parametrize(("question", "expected"), ITSELF.items())
def test_an_answer_about_itself_and_its_limits(question: str, expected: str) -> None:
    assert expected in str(answer(question, NOW))


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages(text: str) -> None:
    assert answer(text, NOW) == ENGLISH_ONLY


QUIZ = "Let us play a quiz! What is the capital of Italy?"
QUIZ_ANSWERS = {
    "Rome.": "That is right! Next question: How many legs does a spider have?",
    "I think it's Rome.": "That is right! Next question: How many legs does a spider have?",
    "Is it Madrid?": "No, it is Rome. Next question: How many legs does a spider have?",
    "I don't know.": "It is Rome. Next question: How many legs does a spider have?",
    "Next question, please.": "Here is a question. How many legs does a spider have?",
    "Stop it.": "All right.",
    "Why is the sky blue?": None,
    "I would like to talk about something else now.": None,
}


@pytest.mark.parametrize(("text", "expected"), QUIZ_ANSWERS.items())
def test_a_quiz_judges_answers_and_asks_the_next_question(text: str, expected: str | None) -> None:
    assert answer(text, replace(NOW, previous=QUIZ)) == expected


def test_a_quiz_begins_when_asked_and_goes_around() -> None:
    said = answer("Quiz me!", NOW)
    assert said == "Here is a question. What is the capital of Italy?"
    assert answer("Rome.", NOW) is None
    asked = []
    for _ in range(10):
        said = answer("I don't know.", replace(NOW, previous=said))
        assert said is not None
        asked.append(said.rpartition(": ")[2])
    assert len(set(asked)) == 10
    assert asked[-1] == "What is the capital of Italy?"
    assert answer("Eight.", replace(NOW, previous=asked[0].removesuffix(" have?")))


@pytest.mark.parametrize("question", FOR_THE_MODEL)
def test_other_questions_are_for_the_model(question: str) -> None:
    assert answer(question, NOW) is None


def test_answers_from_the_conversation() -> None:
    said = ("My name is Peter and I live in Hamburg.", "Tell me a joke.")
    later = replace(NOW, said=said, previous="It is Paris.")
    assert answer("repeat that please", later) == "It is Paris."
    assert answer("What's my name?", later) == "You told me that your name is Peter."
    assert answer("where do I live", later) == "You told me that you live in Hamburg."
    assert answer("what is my birthday", later) == "You have not told me your birthday."
    assert answer("Tell me another joke.", later) != answer("Tell me a joke.", NOW)


@pytest.mark.parametrize("text", ["1 + " * 49, "how many " * 22, "a (" * 66, "good morning " * 15])
def test_no_text_takes_long(text: str) -> None:
    """Backtracking would take seconds; the limit is generous for a busy machine."""
    begun = time.process_time()
    answer(text, NOW)
    assert time.process_time() - begun < 1.0


def test_the_prompt_names_the_assistant_and_the_date_of_the_clients_zone() -> None:
    knowledge = SelfKnowledge(LocalOptions(), "", "Pacific/Kiritimati")
    prompt = knowledge.prompt("Be brief.")
    assert prompt.startswith("You are Antiphon")
    assert f"{knowledge.now():%A}" in prompt
    assert prompt.endswith("Be brief.")
    offset = knowledge.now().utcoffset()
    assert offset is not None
    assert offset.total_seconds() == 14 * 3600


def test_a_client_may_give_the_assistant_another_name() -> None:
    prompt = "Your name is Akira. You are a helpful assistant."
    knowledge = SelfKnowledge(LocalOptions(), prompt, "")
    assert "Antiphon" not in knowledge.prompt(prompt)
    ask = [{"role": "system", "content": prompt}, {"role": "user", "content": "Who are you?"}]
    assert knowledge.answer(ask) is None


@pytest.mark.parametrize(
    ("options", "apply"),
    [
        (LocalOptions(), True),
        (LocalOptions(rules=False), False),
        (LocalOptions(model_path=Path("large.gguf")), False),
        (LocalOptions(model_path=Path("large.gguf"), rules=True), True),
    ],
)
def test_rules_are_for_the_bundled_model_unless_set(options: LocalOptions, apply: bool) -> None:
    knowledge = SelfKnowledge(options, "Be brief.", "")
    assert (knowledge.answer([{"role": "user", "content": "2 + 2"}]) is not None) is apply
    assert (knowledge.prompt("Be brief.") != "Be brief.") is apply


def test_a_larger_model_answers_in_other_languages() -> None:
    asked: list[LlmMessage] = [{"role": "user", "content": "法国的首都是哪里？"}]
    larger = LocalOptions(model_path=Path("large.gguf"), rules=True)
    assert SelfKnowledge(LocalOptions(), "", "").answer(asked) == ENGLISH_ONLY
    assert SelfKnowledge(larger, "", "").answer(asked) is None


@pytest.mark.parametrize("kind", [DuplexConfig, HalfDuplexConfig, ChatOptions])
@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe", "\0"]
)
def test_an_unknown_time_zone_is_refused_with_its_field(
    kind: type[DuplexConfig | HalfDuplexConfig | ChatOptions], name: str
) -> None:
    with pytest.raises(ValueError, match=r"(?s)time_zone.*IANA database"):
        kind.model_validate({"time_zone": name})
    assert kind.model_validate({"time_zone": "Europe/Berlin"}).time_zone == "Europe/Berlin"


def test_a_chat_request_with_an_unknown_time_zone_is_refused() -> None:
    request = {"messages": [{"role": "user", "content": "What time is it?"}]}
    assert parse_chat_request(request | {"time_zone": "Asia/Kolkata"}).time_zone == "Asia/Kolkata"
    with pytest.raises(InvalidInput, match="IANA database") as refused:
        parse_chat_request(request | {"time_zone": "Berlin"})
    assert refused.value.field == "time_zone"


def test_the_manner_adds_up_over_the_conversation_and_has_limits() -> None:
    assert manner_of(["Hello.", "What is two plus two?"]) == Manner()
    slower = manner_of(["Can you speak more slowly, please?"])
    assert slower.speed < 1 == slower.gain
    assert manner_of(["Slower!", "I want you to speak slower."]).speed < slower.speed
    assert manner_of(["Slower!", "Why?", "Faster please."]) == Manner()
    louder = manner_of(["Speak up", "louder", "I can't hear you"] * 9)
    assert manner_of(["Speak up"]).gain < louder.gain < 3
    assert manner_of(["Be a bit quieter."]).gain < 1
