"""Questions about the time of day, here and elsewhere."""

import functools
import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from antiphon.inference_worker.engines.local.rules.quantities.numbers import counted

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


def _hour(prefix: str = "") -> str:
    return (
        rf"(?:(?P<{prefix}name>midnight|noon|midday)"
        rf"|(?P<{prefix}hour>\d{{1,2}})(?:[: ](?P<{prefix}minute>[0-5]\d))?"
        rf"(?: ?(?P<{prefix}half>am|pm|a m|p m)| o'?clock)?)"
    )


_HOUR = _hour()
_SPAN = (
    r"(?P<count>\d{1,3}(?:\.\d{1,2})?|an?|half an?) (?P<unit>hour|minute)s?"
    r"(?: and (?P<more>\d{1,3}|a half)(?: minutes?)?)?"
)
_PAST_OR_TO = re.compile(
    r"\b(?:(?:a )?(?P<part>quarter|half)|(?P<minutes>\d{1,2}) minutes?"
    r"|(?<!from )(?<!between )(?P<few>5|10|20|25))"
    r" (?P<side>past|to) (?P<hour>1[0-2]|[1-9])\b(?!:)"
)
_DAYTIME = re.compile(r"(?<=\d)(?: o'?clock)? in the (?P<part>morning|afternoon|evening)\b")

_Found = re.Match[str]


def spoken_time(now: datetime) -> str:
    return f"{now.hour % 12 or 12}:{now.minute:02} {'AM' if now.hour < 12 else 'PM'}"


def _hour_in_digits(found: _Found) -> str:
    """ "4:15" of "quarter past 4", "8:50" of "10 to 9"."""
    minutes = {"quarter": 15, "half": 30}.get(found["part"] or "") or int(
        found["minutes"] or found["few"]
    )
    is_to = found["side"] == "to"
    if minutes > 59 or (is_to and found["part"] == "half"):
        return found[0]
    hour = (int(found["hour"]) - 2) % 12 + 1 if is_to else int(found["hour"])
    return f"{hour}:{60 - minutes if is_to else minutes:02}"


def _time_of(found: _Found, prefix: str = "") -> tuple[int, bool] | None:
    """In minutes of the day, and whether morning or afternoon is known."""
    if name := found[f"{prefix}name"]:
        return 0 if name == "midnight" else 12 * 60, True
    hour, minute = int(found[f"{prefix}hour"]), int(found[f"{prefix}minute"] or 0)
    half = found[f"{prefix}half"]
    if hour > 23 or (half and not 1 <= hour <= 12):
        return None
    if half:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    return 60 * hour + minute, bool(half) or not 1 <= hour <= 12


def _spoken_minutes(minutes: int, *, is_known: bool) -> str:
    hour, minute = divmod(minutes % (24 * 60), 60)
    half = f" {'AM' if hour < 12 else 'PM'}" if is_known else ""
    return f"{hour % 12 or 12}:{minute:02}{half}"


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
    time = _time_of(found)
    if time is None:
        return None
    hour, minute = divmod(time[0], 60)
    then = now.astimezone(here).replace(hour=hour, minute=minute)
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
    time = _time_of(found)
    if time is None:
        return None
    (hour, minute), is_known = divmod(time[0], 60), time[1]
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    while then <= now:
        then += timedelta(hours=24 if is_known else 12)
    here, then = now.tzinfo, then.astimezone(UTC)
    left = -(-(then - now.astimezone(UTC)) // timedelta(minutes=1))
    return f"It is {_span(left)} until {found['name'] or spoken_time(then.astimezone(here))}."


def _minutes_in(found: _Found) -> int:
    """Of what `_SPAN` has found."""
    count = found["count"]
    amount = {"a": 1.0, "an": 1.0, "half an": 0.5, "half a": 0.5}.get(count)
    minutes = round((float(count) if amount is None else amount) * 60)
    if found["unit"] == "minute":
        minutes //= 60
    more = found["more"]
    return minutes + (30 if more == "a half" else int(more or 0))


def _in_span(found: _Found, now: datetime) -> str:
    """In some time, or some time ago."""
    minutes = _minutes_in(found)
    if "ago" in found[0]:
        return f"{_span(minutes)} ago it was {spoken_time(_later(now, -minutes))}."
    return f"In {_span(minutes)} it will be {spoken_time(_later(now, minutes))}."


def _span_from(found: _Found, _: datetime) -> str | None:
    """Some time after or before an hour."""
    time = _time_of(found)
    if time is None:
        return None
    minutes = _minutes_in(found) * (-1 if re.search(r"\b(?:before|ago|earlier)\b", found[0]) else 1)
    begin = "That is at" if re.match(r"(?!what\b)", found[0]) else "It is"
    return f"{begin} {_spoken_minutes(time[0] + minutes, is_known=time[1])}."


def _from_hour_to_hour(found: _Found, _: datetime) -> str | None:
    begin, end = _time_of(found), _time_of(found, "end_")
    if begin is None or end is None:
        return None
    both_known = begin[1] and end[1]
    minutes = (end[0] - begin[0]) % ((24 if both_known else 12) * 60)
    if not minutes:
        return None
    return f"It is {counted(minutes, 'minute') if found['minutes'] else _span(minutes)}."


def _later(now: datetime, minutes: int) -> datetime:
    """Within one time zone, Python adds to the shown time, even when the clocks change between."""
    return (now.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(now.tzinfo)


def _span(minutes: int) -> str:
    parts = zip(divmod(max(1, minutes), 60), ("hour", "minute"), strict=True)
    return " and ".join(counted(*part) for part in parts if part[0])


_LASTS = (
    r"(?:and )?(?:(?:it|that|which|the [a-z]+) )?(?:(?:will )?(?:takes?|lasts?)|goes on for|runs for)"
    rf"(?: me| us| about)? {_SPAN}(?: long)?"
)
_WHEN = r"(?:so )?(?:when|(?:at )?what time|how late)(?: [a-z]+){1,6}"

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
         r"| have (?:i|we) got| left)*"
         rf" (?:until|till|to|before) {_HOUR}", _until),
        (rf"what (?:time (?:will it be|is it|was it)|(?:was|is|will be) the time)(?: in)? {_SPAN}"
         r"(?: ago| from now)?",
         _in_span),
        (rf"what (?:time )?(?:is|was|will be|would be)(?: it)? {_SPAN} (?:after|before|past) {_HOUR}",
         _span_from),
        (rf"(?:if |when |so )*(?:[a-z']+ ){{1,6}}?at {_HOUR} {_LASTS} {_WHEN}", _span_from),
        (rf"(?:if |when |so )*(?:[a-z']+ ){{1,4}}?(?:takes?|lasts?)(?: me| us| about)? {_SPAN}"
         rf" (?:(?:and|so|but) )?(?:[a-z']+ ){{1,4}}?at {_HOUR} {_WHEN}", _span_from),
        (rf"if it is {_HOUR}(?: now)? (?:then )?what time (?:will it be|is it|was it|would it be)(?: in)?"
         rf" {_SPAN}"
         r"(?: later| from now| ago| earlier)?", _span_from),
        (r"how (?:long|many (?:hours|(?P<minutes>minutes))|much time)(?: [a-z]+){0,6} (?:from|between) "
         rf"{_HOUR} (?:to|until|till|and) {_hour('end_')}", _from_hour_to_hour),
    )
)  # fmt: skip


def answer_clock(text: str, now: datetime) -> str | None:
    """The answer to a question about the time; `text` is lower case, with numbers in digits."""
    text = _PAST_OR_TO.sub(_hour_in_digits, text)
    text = _DAYTIME.sub(lambda part: " am" if part["part"] == "morning" else " pm", text)
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
