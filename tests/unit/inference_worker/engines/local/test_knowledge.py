"""What the engine looks up: definitions, names, meanings and facts."""

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.local.reference import facts
from antiphon.inference_worker.engines.local.reference.countries import country_facts
from antiphon.inference_worker.engines.local.reference.dictionary import (
    Dictionary,
    EntryKind,
    dictionary,
)
from antiphon.inference_worker.engines.local.reference.facts import key_of
from antiphon.inference_worker.engines.local.reference.words import article, singular, with_article
from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.knowledge import answer_knowledge
from antiphon.inference_worker.engines.local.rules.text import plain
from support.situations import NOW

FACTS = Path(facts.__file__).with_name("facts.txt")
COUNTRY_TABLE = FACTS.with_name("countries.txt")

COMET = (
    "A comet is a relatively small extraterrestrial body consisting of a frozen mass that travels around"
    " the sun in a highly elliptical orbit."
)
OCTOPUS = (
    "An octopus is a bottom-living cephalopod having a soft oval body with eight long tentacles."
)
GRAVITY = "Gravity is the force of attraction between all masses in the universe."
MOZART = (
    "Wolfgang Amadeus Mozart, who lived from 1756 to 1791, was a prolific Austrian composer and child"
    " prodigy; master of the classical style in all its forms of his time."
)

KNOWN = {
    "What is a comet?": COMET,
    "what's a comet": COMET,
    "So, um, what exactly is a comet?": COMET,
    "Do you know what a comet is?": COMET,
    "Can you explain what comets are?": COMET,
    "Tell me about comets, please.": COMET,
    "Hello. What is a comet?": f"Hello! {COMET}",
    "I like space. What is a comet?": f"Good choice. {COMET}",
    "What is a comet? Thanks.": f"{COMET} You are welcome.",
    "Tell me something about octopuses.": OCTOPUS,
    "What kind of animal is an octopus?": OCTOPUS,
    "What is gravity?": GRAVITY,
    "Explain gravity to me.": GRAVITY,
    "Thank you, but what is gravity?": GRAVITY,
    "Define gravity.": "Gravity means the force of attraction between all masses in the universe.",
    "What is the moon?": "The Moon is the natural satellite of the Earth.",
    "Who was Mozart?": MOZART,
    "Tell me about Mozart.": MOZART,
    "When was Mozart born?": "Mozart was born in Salzburg in 1756 and died in Vienna in 1791.",
    "When was Plato born?": "Plato was born in 428 BC and died in 347 BC.",
    "Who is Bill Gates?": (
        "Bill Gates is a United States computer entrepreneur whose software company made him the youngest"
        " multi-billionaire in the history of the United States."
    ),
    "In which country is the Eiffel Tower?": "The Eiffel Tower is in Paris, in France.",
    "Where is Paris?": "Paris is the capital and largest city of France.",
    "what is china": "China is a communist nation that covers a vast territory in eastern Asia.",
    "What is china made of?": None,
    "What does ubiquitous mean?": "Ubiquitous means being present everywhere at once.",
    "What does it mean to procrastinate?": None,
    "What does procrastinate mean?": (
        "To procrastinate means to postpone doing what one should be doing."
    ),
    "What's the opposite of hot?": "The opposite of hot is cold.",
    "Give me another word for happy.": "Instead of happy you can say glad, felicitous or bright.",
    "What is the difference between a lake and a pond?": (
        "A lake is a body of water surrounded by land. A pond is a small lake."
    ),
    "What's the difference between a zorp and a toad?": None,
    "What does a plumber do?": (
        "A plumber is a craftsman who installs and repairs pipes and fixtures and appliances."
    ),
    "What's the capital of Australia?": "The capital of Australia is Canberra.",
    "And what is the capital city of the Netherlands?": (
        "The capital of the Netherlands is Amsterdam."
    ),
    "What's the capital of the USA?": "The capital of the United States is Washington, D.C.",
    "What do mice eat?": "Mice eat mostly seeds and grain, and almost anything else they find.",
    "How long do horses live?": "Horses live about 25 to 30 years.",
    "How many zeros are in a million?": "A million has six zeros.",
    "How often is the World Cup?": "The football World Cup is held every four years.",
    "Alexa, what is gravity?": GRAVITY,
}

NOT_LOOKED_UP = (
    "What is it?",
    "What is wrong?",
    "What is the matter?",
    "What is the problem?",
    "What's the plan?",
    "What is the capital?",
    "What is time?",
    "Who is he?",
    "Who is John?",
    "Who is there?",
    "Tell me about your day.",
    "Tell me about it.",
    "Tell me more.",
    "Explain yourself.",
    "What are you?",
    "Where is my phone?",
    "How is gravity made?",
    "I have burnout.",
    "And ethereum?",
    "Ssh!",
    "Hey Siri.",
    "What eats mice?",
    "Which animals eat mice?",
    "How long does a horse get?",
    "What is Python written in?",
    "What can I do about climate change?",
    "Is there a recession?",
)

UNKNOWN = {
    "What is flumsel?": "Sorry, I do not know what flumsel is.",
    "Who was Hedy Xanderbom?": "Sorry, I do not know who Hedy Xanderbom was.",
}


@pytest.mark.parametrize(("question", "expected"), KNOWN.items())
def test_what_is_looked_up(question: str, expected: str | None) -> None:
    assert answer(question, NOW) == expected


@pytest.mark.parametrize("question", NOT_LOOKED_UP)
def test_what_only_the_conversation_knows(question: str) -> None:
    assert answer_knowledge(question) is None


@pytest.mark.parametrize(("question", "expected"), UNKNOWN.items())
def test_what_a_small_model_would_invent(question: str, expected: str) -> None:
    assert answer(question, NOW) == expected


def test_a_name_that_the_user_gave_is_not_looked_up() -> None:
    assert answer("Who is Homer?", NOW) is not None
    told = replace(NOW, said=("My dog is called Homer.",))
    assert answer("Who is Homer?", told) is None


def test_a_follow_up_is_looked_up() -> None:
    asked = replace(NOW, said=("What is the capital of Norway?",))
    assert answer("And of Sweden?", asked) == "The capital of Sweden is Stockholm."


CONVERSATIONS = (
    {
        "Tell me about octopuses.": OCTOPUS,
        "How many hearts do they have?": "An octopus has three hearts.",
    },
    {
        "Who was Beethoven?": None,
        "When was he born?": None,
        "Thanks.": None,
        "When did he die?": "Beethoven was born in Bonn in 1770 and died in Vienna in 1827.",
    },
    {
        "What is the Eiffel Tower?": (
            "The Eiffel Tower is a wrought iron tower 300 meters high that was constructed in Paris in 1889."
        ),
        "How tall is it?": "The Eiffel Tower is about 330 metres tall.",
        "Where is it?": "The Eiffel Tower is in Paris, in France.",
    },
    {
        "Who wrote Hamlet?": None,
        "When did he die?": "William Shakespeare was born in 1564 and died in 1616.",
    },
    {
        "Who painted the Mona Lisa?": None,
        "Where is it?": "The Mona Lisa hangs in the Louvre in Paris.",
    },
    {
        "What's the tallest mountain?": None,
        "Who climbed it first?": (
            "Edmund Hillary and Tenzing Norgay first climbed Mount Everest, on 29 May 1953."
        ),
    },
    {
        "How hot is the sun?": None,
        "How far is it?": "The sun is about 150 million kilometres away.",
    },
)


@pytest.mark.parametrize("turns", CONVERSATIONS)
def test_a_pronoun_stands_for_the_topic(turns: dict[str, str | None]) -> None:
    said: list[str] = []
    for text, expected in turns.items():
        looked_up = answer_knowledge(text, said)
        assert expected is None or looked_up == expected
        said.append(text)


COUNTRIES = {
    "What's the population of India?": "About 1.45 billion people live in India.",
    "How many people live in the USA?": "About 340 million people live in the United States.",
    "What is the population of the Vatican?": "About 700 people live in Vatican City.",
    "Which countries border Kenya?": (
        "Kenya borders Ethiopia, Somalia, Tanzania, Uganda and South Sudan."
    ),
    "What are the neighbours of Portugal?": "Portugal borders Spain.",
    "Does Japan have neighbours?": "Japan has no land border.",
    "What continent is Egypt in?": "Egypt is in Africa.",
    "What currency do they use in the Netherlands?": "The currency of the Netherlands is the euro.",
    "What language do they speak in Brazil?": "In Brazil people speak Portuguese.",
    "What languages do people speak in Belgium?": "Belgium has three languages: Dutch, French and German.",
    "Is coffee bad for you?": (
        "For most adults three or four cups of coffee a day are harmless, but it keeps many people awake."
    ),
    "How many calories does a banana have?": "A banana has about 105 calories.",
}


@pytest.mark.parametrize("question", COUNTRIES)
def test_countries(question: str) -> None:
    assert answer(question, NOW) == COUNTRIES[question]


def test_each_country_is_complete_and_hides_no_fact() -> None:
    for line in COUNTRY_TABLE.read_text("utf-8").splitlines():
        columns = line.split(" | ")
        assert len(columns) == 6, line
        assert "-" not in (columns[1], columns[2], *columns[4:]), line
    questions = [question for question, _ in country_facts()]
    assert [plain(question) for question in questions] == questions
    keys = [
        key_of(key)
        for line in FACTS.read_text("utf-8").splitlines()
        for key in line.partition(" | ")[0].split(" / ")
    ]
    assert not {key_of(question) for question in questions} & set(keys)


def test_what_was_looked_up_is_sure() -> None:
    told = replace(NOW, said=("What is a comet?",), previous=COMET)
    assert answer("Are you sure?", told) == "Yes, I looked that up."
    assert answer("Are you sure?", replace(told, previous="It is a star.")) != answer(
        "Are you sure?", told
    )


def test_what_a_fact_was_about_is_a_topic() -> None:
    said = ["What's the biggest animal in the world?", "Wow."]
    eats = "Blue whales eat tiny krill; other whales eat fish and squid."
    assert answer_knowledge("What does it eat?", said) == eats
    assert answer_knowledge("Could it eat me?", said) is None
    died = "About 1,500 people died when the Titanic sank."
    assert answer_knowledge("How many people died?", ["When did the Titanic sink?"]) == died
    capital = "The capital of Mongolia is Ulaanbaatar."
    assert answer_knowledge("What's the capital?", ["Where's Mongolia?"]) == capital
    assert answer_knowledge("What's its capital?", ["Where's Mongolia?"]) == capital
    asked = ["What's the biggest country in the world?", "And the smallest?"]
    live = "About 700 people live in Vatican City."
    assert answer_knowledge("How many people live there?", asked) == live
    speak = "In Australia people speak English."
    of_capital = ["What's the capital of Australia?"]
    assert answer_knowledge("What language do they speak there?", of_capital) == speak
    assert answer_knowledge("And the language?", of_capital) == speak


def test_a_pronoun_without_a_topic() -> None:
    assert answer_knowledge("How tall is it?") is None
    assert answer_knowledge("How many people live there?", ["Tell me about Paris."]) is None


def test_every_key_of_the_facts_is_in_plain_form_and_means_one_fact() -> None:
    found: dict[frozenset[str], int] = {}
    for number, line in enumerate(FACTS.read_text("utf-8").splitlines()):
        keys, bar, answer_ = line.partition(" | ")
        assert bar, line
        assert answer_.endswith((".", "?")), line
        assert len(answer_.split()) <= 32, line
        for key in keys.split(" / "):
            assert plain(key) == key
            assert key_of(key), line
            assert found.setdefault(key_of(key), number) == number, line


def test_a_word_that_answers_a_question_is_not_looked_up() -> None:
    sushi = "Sushi is vinegared rice with fish or vegetables, often rolled in seaweed."
    assert answer("Sushi.", replace(NOW, previous="Hello! How can I help you?")) == sushi
    asked = replace(NOW, previous="What kind of food do you like?")
    assert answer("Sushi.", asked) is None
    assert answer("What is sushi?", asked) == sushi


def test_other_models_and_other_persons_answer_themselves() -> None:
    assert answer("What is a comet?", replace(NOW, small_talk=False)) is None
    assert answer("What is a comet?", replace(NOW, persona=True)) is None


def test_all_lines_of_the_dictionary_are_found() -> None:
    lines = dictionary()._lines.split(b"\n")[:-1]
    assert lines == sorted(lines)
    for line in lines[::997] + lines[:1] + lines[-1:]:
        word, kind, form, text = line.decode().split("\t")
        entry = dictionary().find(word)[EntryKind(kind)]
        assert entry.form == form
        assert entry.text == text.split("|")[0]


def test_a_word_that_begins_like_another() -> None:
    own = Dictionary(b"ab\tc\tab\tfirst\nabc\tc\tabc\tsecond\nb\tl\tB\tthird|1900|2000\n")
    assert own.find("ab")[EntryKind.THING].text == "first"
    assert set(own.find("abc")) == {EntryKind.THING}
    assert own.find("b")[EntryKind.PLACE].died == "2000"
    assert own.find("a") == own.find("bc") == own.find("") == {}


SINGULARS = {
    "comets": "comet", "boxes": "box", "berries": "berry", "heroes": "hero", "black holes": "black hole",
    "horses": "horse", "causes": "cause", "houses": "house", "viruses": "virus", "glasses": "glass",
    "peaches": "peach", "headaches": "headache", "toes": "toe", "prizes": "prize",
    "teeth": "tooth", "glass": "glass", "bus": "bus", "moon": "moon", "species": "species", "days": "day",
}  # fmt: skip


@pytest.mark.parametrize(("word", "expected"), SINGULARS.items())
def test_singulars(word: str, expected: str) -> None:
    assert singular(word) == expected


def test_articles() -> None:
    words = (
        "octopus",
        "comet",
        "unicorn",
        "hour",
        "FBI",
        "umbrella",
        "university",
        "uninvited guest",
    )
    assert [article(word) for word in words] == ["an", "a", "a", "an", "an", "an", "a", "an"]
    assert with_article("first man on the moon") == "the first man on the moon"
    assert with_article("largest mammal ever known") == "the largest mammal ever known"
    assert with_article("modest person") == "a modest person"
    assert with_article("large snakes of warm regions") == "one of the large snakes of warm regions"
    assert with_article("any of various birds") == "any of various birds"


def test_the_words_of_a_question_that_count() -> None:
    assert key_of("what is the tallest mountain in the world") == {"tallest", "mountain"}
    assert (
        key_of("who is the author of hamlet") == key_of("who wrote hamlet") == {"wrote", "hamlet"}
    )
    assert key_of("how many legs does a spider have") == {"how", "many", "leg", "spider"}
