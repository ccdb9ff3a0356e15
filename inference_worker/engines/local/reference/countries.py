"""Countries: where they are, how many people live there, their neighbours, currency and language.

countries.txt has a country on each line: its names, the part of the world, the number of people, the
neighbours, the currency and the languages. A language with a full stop is a whole sentence. capitals.txt has
the capitals of these and of other countries and states.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

_TABLE = Path(__file__).with_name("countries.txt")
_CAPITALS = Path(__file__).with_name("capitals.txt")
_NOTHING = "-"

_PLACE = ("continent {}",)
_PEOPLE = (
    "population {}",
    "how many people {}",
    "how many people live {}",
    "how many inhabitant {}",
    "how many person live {}",
    "how large population {}",
)
_BORDERS = (
    "border {}",
    "country border {}",
    "country share border {}",
    "country next {}",
    "country around {}",
    "neighbour {}",
    "neighbor {}",
    "neighbouring country {}",
    "neighboring country {}",
)
_CURRENCY = (
    "currency {}",
    "money {}",
    "currency use {}",
    "currency used {}",
    "money use they {}",
    "currency use they {}",
    "money people use {}",
)
_LANGUAGE = (
    "language {}",
    "official language {}",
    "spoken language {}",
    "speak they language {}",
    "speak people language {}",
    "people language {}",
    "they speak {}",
    "people speak {}",
)


def country_facts() -> Iterator[tuple[str, str]]:
    """The words of each question, in plain form, and its answer.

    A question for the language or the currency may name the capital instead of the country.
    """
    capitals = dict(line.split(": ") for line in _CAPITALS.read_text("utf-8").splitlines())
    for country, capital in capitals.items():
        yield f"capital {country.lower()}", f"The capital of {country} is {capital}."
    for (country, *others), (place, people, neighbours, currency, languages) in _countries():
        upper = country[:1].upper() + country[1:]
        borders = f"{upper} borders {neighbours}."
        answers = (
            (_PLACE, f"{upper} is in {place}."),
            (_PEOPLE, f"About {people} people live in {country}."),
            (_BORDERS, f"{upper} has no land border." if neighbours == _NOTHING else borders),
            (_CURRENCY, f"The currency of {country} is {currency}."),
            (
                _LANGUAGE,
                languages if languages.endswith(".") else f"In {country} people speak {languages}.",
            ),
        )
        for name in (country.removeprefix("the ").lower(), *others):
            for questions, answer in answers:
                yield from ((question.format(name), answer) for question in questions)
        if city := capitals.get(country.removeprefix("the ")):
            for questions, answer in answers[-2:]:
                yield from ((question.format(city.lower()), answer) for question in questions)


def country_in(text: str) -> str | None:
    """The first country that a text names, as a sentence writes it."""
    found = _names().search(text)
    return found[0] if found else None


@functools.cache
def _countries() -> tuple[tuple[list[str], list[str]], ...]:
    """The names of each country, and the rest of its line."""
    lines = (line.split(" | ") for line in _TABLE.read_text("utf-8").splitlines())
    return tuple((names.split(" / "), rest) for names, *rest in lines)


@functools.cache
def _names() -> re.Pattern[str]:
    names = {name for (name, *_), _ in _countries()}
    longest_first = sorted((name.removeprefix("the ") for name in names), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
