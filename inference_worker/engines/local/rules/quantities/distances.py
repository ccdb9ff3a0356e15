"""How far one city is from another, and how long the flight takes."""

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path

from antiphon.inference_worker.engines.local.rules.quantities.numbers import counted


@dataclass(frozen=True, slots=True)
class _City:
    """Latitude and longitude are in degrees."""

    name: str
    latitude: float
    longitude: float


_TABLE = Path(__file__).parents[2] / "reference" / "cities.txt"
"""On each line a city, its latitude and its longitude."""

_EARTH_RADIUS_KM = 6371.0
_CRUISE_KM_PER_H = 850.0
_CLIMB_H = 0.5
"""What a flight takes beyond its distance: to climb and to descend."""

_SHORTEST_FLIGHT_KM = 150.0

_CITIES = r"(?P<one>[a-z .'-]+?) (?:to|from|and) (?P<other>[a-z .'-]+?)"
_HOW_FAR = re.compile(
    r"(?:how far(?: away)?|how many (?:kilometers|kilometres|km|miles)) (?:is|it is|is it|are)"
    rf"(?: it)?(?: from| between)? {_CITIES}(?: (?:away|in (?:kilometers|kilometres|km|miles)))?"
    rf"|(?:what is )?the distance (?:from|between) (?P<first>[a-z .'-]+?) (?:to|and) (?P<second>[a-z .'-]+?)"
    r"(?: in (?:kilometers|kilometres|km|miles))?"
)
_FLIGHT = re.compile(
    r"how (?:long|many hours) (?:does it take to fly|is (?:the|a) flight|would it take to fly"
    rf"|does (?:the|a) flight take|is it to fly|do you fly)(?: from| between)? {_CITIES}"
)


_FROM_HERE = re.compile(
    r"how far (?:away )?(?:is|is it to) (?P<city>[a-z .'-]+?)(?: away)?(?: from here)?"
)
_BY_ROAD = re.compile(
    r"(?:(?:and|what about|how about|how long|how far|is it|does it take) )*"
    r"(?:(?:by|on|with|in) (?:(?:a|the) )?(?:car|train|bus|boat|ship|ferry|bike|bicycle|foot|road)"
    r"|to (?:drive|walk|cycle|go there))"
)
_STRAIGHT = "as the crow flies."
_NO_ROADS = "I have no maps, so I know no roads and no timetables."


def answer_distance(text: str, previous: str = "") -> str | None:
    """The answer to a question in plain form; None if it asks for no distance of two known cities.

    `previous`: what was answered before.
    """
    if previous.endswith(_STRAIGHT) and _BY_ROAD.fullmatch(text):
        return _NO_ROADS
    if (found := _FROM_HERE.fullmatch(text)) and (city := _city(found["city"])):
        return f"I do not know where you are. How far is {city.name} from which city?"
    if found := _HOW_FAR.fullmatch(text):
        places = _places(found["one"] or found["first"], found["other"] or found["second"])
        if places is None:
            return None
        (one, other), km = places
        if "mile" in text:
            return f"It is about {_rounded(km / 1.609344)} miles from {one} to {other} {_STRAIGHT}"
        return f"It is about {_rounded(km)} kilometres from {one} to {other} {_STRAIGHT}"
    if found := _FLIGHT.fullmatch(text):
        places = _places(found["one"], found["other"])
        if places is None or places[1] < _SHORTEST_FLIGHT_KM:
            return None
        (one, other), km = places
        return f"A flight from {one} to {other} takes about {_length(km / _CRUISE_KM_PER_H + _CLIMB_H)}."
    return None


def _length(hours: float) -> str:
    """In half hours, as people say it."""
    whole, half = divmod(max(1, round(2 * hours)), 2)
    if not half:
        return counted(whole, "hour")
    return (
        f"{whole} and a half hours" if whole > 1 else ("half an hour", "an hour and a half")[whole]
    )


def _places(one: str, other: str) -> tuple[tuple[str, str], float] | None:
    """The names of two cities, and the kilometres between them."""
    first, second = _city(one), _city(other)
    if first is None or second is None or first == second:
        return None
    return (first.name, second.name), _distance_km(first, second)


def _distance_km(first: _City, second: _City) -> float:
    """Along a great circle."""
    lat1, lon1, lat2, lon2 = map(
        math.radians, (first.latitude, first.longitude, second.latitude, second.longitude)
    )
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * _EARTH_RADIUS_KM * math.asin(math.sqrt(half))


def _rounded(distance: float) -> str:
    """With two digits that count."""
    step = 10 ** max(0, len(str(round(distance))) - 2)
    return f"{round(distance / step) * step:,}"


def _city(name: str) -> _City | None:
    """Mexico City, and also "New York City"."""
    return _cities().get(name) or _cities().get(name.removesuffix(" city"))


@functools.cache
def _cities() -> dict[str, _City]:
    lines = (line.split(" | ") for line in _TABLE.read_text("utf-8").splitlines())
    return {name.lower(): _City(name, float(lat), float(lon)) for name, lat, lon in lines}
