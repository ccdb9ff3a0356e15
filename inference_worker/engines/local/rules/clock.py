"""Questions about the time of day, here and elsewhere."""

import functools
import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from antiphon.inference_worker.engines.local.rules.numbers import counted

_CITY_ZONES = {
    "beijing": "Asia/Shanghai",
    "delhi": "Asia/Kolkata",
    "new delhi": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "india": "Asia/Kolkata",
    "china": "Asia/Shanghai",
    "japan": "Asia/Tokyo",
    "germany": "Europe/Berlin",
    "france": "Europe/Paris",
    "england": "Europe/London",
    "the uk": "Europe/London",
    "washington": "America/New_York",
    "boston": "America/New_York",
    "miami": "America/New_York",
    "san francisco": "America/Los_Angeles",
    "california": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "utc": "UTC",
    "gmt": "UTC",
}

_HOUR = (
    r"(?:(?P<name>midnight|noon|midday)|(?P<hour>\d{1,2})(?:[: ](?P<minute>[0-5]\d))?"
    r"(?: ?(?P<half>am|pm|a m|p m)| o'?clock)?)"
)
_SPAN = (
    r"(?P<count>\d{1,3}(?:\.\d)?(?P<half_more> and a half)?|an?|half an?) (?P<unit>hour|minute)s?"
    r"(?: and (?P<more>\d{1,3}|a half)(?: minutes?)?)?"
)

_Found = re.Match[str]


def spoken_time(now: datetime) -> str:
    return f"{now.hour % 12 or 12}:{now.minute:02} {'AM' if now.hour < 12 else 'PM'}"


def _time(_: _Found, now: datetime) -> str:
    return f"It is {spoken_time(now)}."


def _time_elsewhere(found: _Found, now: datetime) -> str:
    place = found["place"]
    zone = _zone_of(place)
    if zone is None:
        return f"{_unknown_zone(place)} Here it is {spoken_time(now)}."
    there = now.astimezone(zoneinfo.ZoneInfo(zone))
    other = f" on {there:%A}" if there.date() != now.date() else ""
    return f"In {_place_name(place)} it is {spoken_time(there)}{other}."


def _time_there_then(found: _Found, now: datetime) -> str | None:
    """The time in one place when it is another time in another place."""
    zones = [_zone_of(found[name]) for name in ("place", "other")]
    unknown = next(
        (found[n] for n, zone in zip(("place", "other"), zones, strict=True) if not zone), ""
    )
    if unknown:
        return _unknown_zone(unknown)
    there, here = (zoneinfo.ZoneInfo(str(zone)) for zone in zones)
    hour = 0 if found["name"] == "midnight" else 12 if found["name"] else int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"].startswith("p") else 0)
    if hour > 23:
        return None
    then = now.astimezone(here).replace(hour=hour, minute=int(found["minute"] or 0))
    other = then.astimezone(there)
    days = (other.date() - then.date()).days
    day = {1: " on the next day", -1: " on the day before"}.get(days, "")
    return f"Then it is {spoken_time(other)}{day} in {_place_name(found['place'])}."


def _unknown_zone(place: str) -> str:
    return f"I do not know the time zone of {place.title()}."


def _place_name(place: str) -> str:
    return place.upper() if place in ("utc", "gmt") else place.title()


def _time_difference(found: _Found, now: datetime) -> str:
    """Between two places, or between here and a place."""
    place, other = found["place"], found["other"]
    offsets = [now.utcoffset() or timedelta(0)]
    for name in (place or other, other):
        zone = _zone_of(name)
        if zone is None:
            return _unknown_zone(name)
        offsets.append(now.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() or timedelta(0))
    here, from_, to = offsets
    later = to - (from_ if place else here)
    than = f"in {_place_name(place)}" if place else "here"
    if not later:
        return f"In {_place_name(other)} it is the same time as {than}."
    hours, minutes = divmod(abs(later) // timedelta(minutes=1), 60)
    parts = [counted(*part) for part in ((hours, "hour"), (minutes, "minute")) if part[0]]
    side = "later" if later > timedelta(0) else "earlier"
    return f"In {_place_name(other)} it is {' and '.join(parts)} {side} than {than}."


def _part_of_day(_: _Found, now: datetime) -> str:
    parts = ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night"))
    return f"It is {next(name for end, name in parts if now.hour < end)}."


def _until(found: _Found, now: datetime) -> str | None:
    """Without "am" and "pm", the next of both."""
    hour, minute = int(found["hour"] or 0), int(found["minute"] or 0)
    if found["name"]:
        hour = 0 if found["name"] == "midnight" else 12
    elif hour > 23 or (found["half"] and not 1 <= hour <= 12):
        return None
    elif found["half"]:
        hour = hour % 12 + (12 if found["half"].startswith("p") else 0)
    either = not found["name"] and not found["half"] and hour <= 12
    then = now.replace(hour=hour % 24, minute=minute, second=0, microsecond=0)
    while then <= now:
        then += timedelta(hours=12 if either else 24)
    here, then = now.tzinfo, then.astimezone(UTC)
    left = -(-(then - now.astimezone(UTC)) // timedelta(minutes=1))
    return f"It is {_span(left)} until {found['name'] or spoken_time(then.astimezone(here))}."


def _in_span(found: _Found, now: datetime) -> str:
    """In some time, or some time ago."""
    count = found["count"].removesuffix(" and a half")
    amount = {"a": 1.0, "an": 1.0, "half an": 0.5, "half a": 0.5}.get(count)
    amount = (float(count) if amount is None else amount) + (0.5 if found["half_more"] else 0.0)
    minutes = round(amount * 60)
    if found["unit"] == "minute":
        minutes //= 60
    more = found["more"]
    minutes += 30 if more == "a half" else int(more or 0)
    if "ago" in found[0]:
        return f"{_span(minutes)} ago it was {spoken_time(_later(now, -minutes))}."
    return f"In {_span(minutes)} it will be {spoken_time(_later(now, minutes))}."


def _later(now: datetime, minutes: int) -> datetime:
    """Within one time zone, Python adds to the shown time, even when the clocks change between."""
    return (now.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(now.tzinfo)


def _span(minutes: int) -> str:
    parts = zip(divmod(max(1, minutes), 60), ("hour", "minute"), strict=True)
    return " and ".join(counted(*part) for part in parts if part[0])


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Found, datetime], str | None]], ...] = tuple(
    (re.compile(pattern), function)
    for pattern, function in (
        (r"(?:what |what is the |what is your |(?:do you have|have you got|give me) (?=the "
         r"|current ))?(?:the )?(?:current "
         r"|exact |local )?"
         r"time(?: is it| it is| do we have| do you have| of day is it| is it here| here)?"
         r"(?: now| right now| at the moment| currently)?|is it (?:time for )?(?:lunch|dinner|breakfast|bed"
         r"|late"
         r"|early|noon|midnight) ?(?:time)?(?: yet| already)?|what hour is it|how late is it|got the"
         r" time", _time),
        (r"what (?:time is it|is the time|time will it be) in (?P<place>[a-z' -]+?) (?:when|if) it is "
         rf"{_HOUR} in (?P<other>[a-z' -]+)", _time_there_then),
        (r"(?:what |what is |do you know )?(?:the )?(?:current )?time(?: is it| it is)?(?: now| right now"
         r"| currently)? in (?!(?:half )?an? (?:hour|minute)\b|half )(?P<place>[a-z' -]+?)(?: now"
         r"| right now)?", _time_elsewhere),
        (r"(?:what is |how (?:big|much|long|large) is )?(?:the )?time difference between (?:them|those"
         r"|these|both)(?: (?:2|cities|places|countries))*", lambda _, __: "Between which two places?"),
        (r"(?:what is |how (?:big|much|long|large) is )?(?:the )?time difference "
         r"(?:(?:between|from) (?P<place>[a-z' -]+?) (?:and|to)|to|with) (?P<other>[a-z' -]+)",
         _time_difference),
        (r"(?:say (?:it|that) |what (?:time )?is (?:it|that) )?(?:in )?(?:the )?(?:24|military)[- ]?(?:hours?)?"
         r" (?:format|time|clock)", lambda _, now: f"It is {now:%H:%M}."),
        (r"is it (?:morning|afternoon|evening|night|day)(?: or (?:morning|afternoon|evening|night))?"
         r"(?: now)?|is it am or pm", _part_of_day),
        (r"how (?:long|many (?:hours|minutes)|much time)(?: is it| is there| are there| do (?:i|we) have"
         r"| left)*"
         rf" (?:until|till|to|before) {_HOUR}", _until),
        (rf"what (?:time (?:will it be|is it|was it)|(?:was|is|will be) the time)(?: in)? {_SPAN}"
         r"(?: ago| from now)?",
         _in_span),
    )
)  # fmt: skip


def answer_clock(text: str, now: datetime) -> str | None:
    """The answer to a question about the time; `text` is lower case, with numbers in digits."""
    for pattern, function in _RULES:
        if (found := pattern.fullmatch(text)) and (answer := function(found, now)):
            return answer
    return None


@functools.cache
def _zones_of_cities() -> dict[str, str]:
    """The city in each IANA name: `new york` of America/New_York."""
    names = sorted(zoneinfo.available_timezones())
    return {
        name.rpartition("/")[2].replace("_", " ").lower(): name for name in names if "/" in name
    }


def _zone_of(place: str) -> str | None:
    place = place.strip()
    zone = _CITY_ZONES.get(place) or _zones_of_cities().get(place)
    return zone if zone in zoneinfo.available_timezones() else None
