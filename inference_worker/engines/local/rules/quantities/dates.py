"""Questions about the calendar, answered from the clock."""

import calendar
import functools
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from antiphon.inference_worker.engines.local.rules.quantities.numbers import (
    counted,
    ordinal,
    with_ordinals,
)

_DAYS = [name.lower() for name in calendar.day_name]
_MONTHS = [name.lower() for name in calendar.month_name[1:]]
_MONTH = "|".join([*_MONTHS, *(name[:3] for name in _MONTHS if name != "may"), "sept"])
_DAY = "|".join(_DAYS)

_FIXED_HOLIDAYS = {
    "new year": (1, 1),
    "new years": (1, 1),
    "new years day": (1, 1),
    "valentines day": (2, 14),
    "independence day": (7, 4),
    "halloween": (10, 31),
    "christmas": (12, 25),
    "christmas day": (12, 25),
    "christmas eve": (12, 24),
    "boxing day": (12, 26),
    "new years eve": (12, 31),
}


def _easter(year: int) -> date:
    """Easter Sunday, by Gauss's method for the Gregorian calendar."""
    century = year // 100
    moon = (century - century // 4 - (8 * century + 13) // 25 + 19 * (year % 19) + 15) % 30
    moon -= moon // 28 * (1 - moon // 28 * (29 // (moon + 1)) * ((21 - year % 19) // 11))
    weekday = (year + year // 4 + moon + 2 - century + century // 4) % 7
    offset = moon - weekday
    month = 3 + (offset + 40) // 44
    return date(year, month, offset + 28 - 31 * (month // 4))


def _thanksgiving(year: int) -> date:
    first = date(year, 11, 1)
    return first + timedelta(days=(3 - first.weekday()) % 7 + 21)


_MOVING_HOLIDAYS: dict[str, Callable[[int], date]] = {
    "easter": _easter,
    "easter sunday": _easter,
    "good friday": lambda year: _easter(year) - timedelta(days=2),
    "easter monday": lambda year: _easter(year) + timedelta(days=1),
    "thanksgiving": _thanksgiving,
}
_HOLIDAY = "|".join(sorted([*_FIXED_HOLIDAYS, *_MOVING_HOLIDAYS], key=len, reverse=True))

_EXACT = (
    rf"(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})|(?:{_MONTH}) (?:the )?\d{{1,2}}"
    r"(?:st|nd|rd|th)?)(?: (?:in |of )?(?:the year )?\d{4})?|\d{4}-\d{2}-\d{2}"
)
_RELATIVE = (
    r"today|tomorrow|yesterday|(?:the )?day after tomorrow|(?:the )?day before yesterday"
    r"|in (?:\d+|an?) (?:days?|weeks?|years?)(?: time)?|(?:\d+|an?) (?:days?|weeks?|years?) from (?:now"
    r"|today)"
    rf"|(?:\d+|an?) (?:days?|weeks?|years?) ago|(?:next|this|last|coming) (?:{_DAY})"
)
WHEN = rf"(?:{_EXACT}|{_RELATIVE}|(?:the )?(?:next )?(?:{_HOLIDAY})(?: (?:this|next) year| (?:in )?\d{{4}})?)"

_IS_FIXED = re.compile(
    rf"{_RELATIVE}|(?:the )?next .*|.*\b(?:this|next) year|.* \d{{4}}|\d{{4}}-.*"
)
"""Names a single date, not one of each year."""

_Found = re.Match[str]


def spoken_date(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


def _today(_: _Found, now: datetime) -> str:
    return f"Today is {spoken_date(now.date())}."


def _weekday_today(_: _Found, now: datetime) -> str:
    return f"Today is {now:%A}."


def _year(_: _Found, now: datetime) -> str:
    return f"It is {now.year}."


def _month(_: _Found, now: datetime) -> str:
    return f"It is {now:%B}."


def _day_of(found: _Found, now: datetime) -> str | None:
    past = re.search(r"\b(?:was|were|did)\b", found[0]) is not None
    when = _date_of(found["when"], now.date(), past=past)
    if when is None:
        return None
    named, said = _named(found["when"]), spoken_date(when)
    if when == now.date():
        return f"Today is {said}."
    tense = "is" if when > now.date() else "was"
    if named:
        return f"{named} {tense} {said}."
    return f"{when.day} {when:%B} {when.year} {tense} a {when:%A}."


def _named(text: str) -> str:
    """How the answer calls the date; empty if the question gave the date itself."""
    if re.fullmatch(_EXACT, text):
        return ""
    name = re.sub(r"^the |^next (?=new|val|ind|hal|chr|box|eas|goo|tha)|^in ", "", text)
    name = re.sub(r" (?:this|next) year$| (?:in )?\d{4}$", "", name)
    if name in _FIXED_HOLIDAYS or name in _MOVING_HOLIDAYS:
        return name.title().replace("Years", "Year's").replace("Valentines", "Valentine's")
    if weekday := re.search(_DAY, name):
        name = name.replace(weekday[0], weekday[0].title())
    if text.startswith("in ") or name.startswith("day "):
        name = f"the {name}" if name.startswith("day ") else f"the day in {name}"
    return name[0].upper() + name[1:]


def _until(found: _Found, now: datetime) -> str | None:
    when = _date_of(found["when"], now.date())
    if when is None:
        return None
    days = (when - now.date()).days
    name = _named(found["when"])
    if re.fullmatch(_RELATIVE, found["when"]):
        name = name[0].lower() + name[1:]
    name = name or f"the {ordinal(when.day)} of {when:%B} {when.year}"
    if days < 0:
        return f"That was {counted(-days, 'day')} ago, on {spoken_date(when)}."
    if days == 0:
        return "That is today."
    unit = found["unit"]
    if unit.startswith("week") and days >= 7:
        weeks, rest = divmod(days, 7)
        exact = f" and {counted(rest, 'day')}" if rest else ""
        return f"It is {counted(weeks, 'week')}{exact} until {name}."
    if unit.startswith("month") and days > 31:
        months = (when.year - now.year) * 12 + when.month - now.month - (when.day < now.day)
        return f"It is about {counted(months, 'month')} until {name}."
    return f"It is {counted(days, 'day')} until {name}."


def _left_in_year(_: _Found, now: datetime) -> str:
    days = (date(now.year, 12, 31) - now.date()).days
    return f"{_there_are(days)} left in {now.year}."


def _there_are(days: int) -> str:
    return f"There {'is' if days == 1 else 'are'} {counted(days, 'day')}"


def _between(found: _Found, now: datetime) -> str | None:
    when, end = found["when"], found["end"]
    year = re.search(r" \d{4}$", end)
    if year and re.fullmatch(_EXACT, when) and not re.search(r"\d{4}", when):
        when = f"{when}{year[0]}"
    first, last = (_date_of(text, now.date()) for text in (when, end))
    if first is None or last is None:
        return None
    if last < first and not _IS_FIXED.fullmatch(end):
        last = _date_of(end, first) or last
    elif last < first and not _IS_FIXED.fullmatch(when):
        first = _date_of(when, last, past=True) or first
    days = abs((last - first).days)
    return f"{_there_are(days)} between {spoken_date(first)}, and {spoken_date(last)}."


def _since(found: _Found, now: datetime) -> str | None:
    when = _date_of(found["when"], now.date(), past=True)
    if when is None or when > now.date():
        return None
    return f"It is {counted((now.date() - when).days, 'day')} since {spoken_date(when)}."


def _leap(found: _Found, now: datetime) -> str:
    named = {"this year": now.year, "next year": now.year + 1, "last year": now.year - 1}
    year = named.get(found["year"]) or int(found["year"])
    return (
        f"Yes, {year} is a leap year."
        if calendar.isleap(year)
        else f"No, {year} is not a leap year."
    )


def _days_in_month(found: _Found, now: datetime) -> str:
    name = found["month"]
    if name in ("this month", "the month"):
        month, year = now.month, now.year
    else:
        month, year = _month_number(name), int(found["year"] or now.year)
    if month == 2 and not found["year"]:
        return "February has 28 days, and 29 in a leap year."
    return f"{calendar.month_name[month]} has {calendar.monthrange(year, month)[1]} days."


def _days_in_year(found: _Found, _: datetime) -> str:
    if found["leap"]:
        return "A leap year has 366 days."
    return "A year has 365 days, and a leap year has 366."


def _neighbour(found: _Found, _: datetime) -> str | None:
    name, step = found["name"], -1 if re.search("before|precedes", found[0]) else 1
    for names in (_DAYS, _MONTHS):
        if name in names:
            other = names[(names.index(name) + step) % len(names)]
            side = "before" if step < 0 else "after"
            return f"{other.title()} comes {side} {name.title()}."
    return None


def _kind_of_day(found: _Found, now: datetime) -> str:
    is_tomorrow = "tomorrow" in found[0]
    weekday = (now.weekday() + is_tomorrow) % 7
    day = f"{'tomorrow' if is_tomorrow else 'today'} is {calendar.day_name[weekday]}."
    if found["other"]:
        return f"{day[0].upper()}{day[1:]}"
    kind = found["kind"]
    is_so = weekday == _DAYS.index(kind) if kind in _DAYS else ("end" in kind) == (weekday > 4)
    return f"{'Yes' if is_so else 'No'}, {day}"


_KIND_OF_DAY = rf"(?P<kind>weekday|work ?day|working day|weekend|{_DAY})"

_RULES: tuple[tuple[re.Pattern[str], Callable[[_Found, datetime], str | None]], ...] = tuple(
    (re.compile(pattern), function)
    for pattern, function in (
        (r"(?:what |what is the |which )?(?:the |today )?(?:current |todays |what is todays )?date(?: is"
         r" it| it is| today| is today"
         r"| is it today| do we have| of today| today is)?(?: now| right now| today)?", _today),
        (r"(?:what|which) (?:day|date) of the month is it|what is today", _today),
        (r"(?:what |which |what is the )?(?:the )?(?:current )?(?:day(?: of the week)?|weekday)(?: is it|"
         r" it is| is today"
         r"| today is| today| do we have)(?: now| today)?|what day are we|what day is it|what is the"
         r" day", _weekday_today),
        (r"(?:what|which) (?:day|date)(?: of the week)? (?:is|was|will it be|will be|was it|is it|does)"
         rf" (?:on )?(?P<when>{WHEN})(?: be| on| fall on)?", _day_of),
        (rf"(?:what|which) (?:day|date|weekday)(?: of the week)? (?:is|was|will|does|did|were) (?:on )?"
         rf"(?P<when>{WHEN})"
         r"(?: be| on| fall on| fall)?", _day_of),
        (rf"what (?:is|was|will be) the (?:day|date) (?:of |on )?(?P<when>{WHEN})", _day_of),
        (rf"what (?:is|was) (?P<when>{_RELATIVE})s? (?:date|day)", _day_of),
        (rf"(?:when|what day) is (?P<when>(?:the )?(?:next )?(?:{_HOLIDAY})(?: (?:this|next) year| (?:in"
         rf" )?\d{{4}})?)", _day_of),
        (r"(?:what |which |what is the )?(?:the )?(?:current )?year(?: is it| it is| are we in| is this|"
         r" do we have)?"
         r"(?: now| right now)?|what (?:here|ear) is it", _year),
        (r"(?:what |which |what is the )?(?:the )?(?:current )?month(?: is it| it is| are we in| is this|"
         r" do we have)?"
         r"(?: now| right now)?", _month),
        (r"how (?:many|much) (?P<unit>days|weeks|months) (?:is it |are there |are left |left |do we have "
         r"|remain |to go )*"
         rf"(?:until|till|to|before|away is) (?:it is )?(?P<when>{WHEN})", _until),
        (rf"how (?P<unit>long) (?:is it |do we have |does it take |will it be )*(?:until|till|to|before) "
         rf"(?:it is )?(?P<when>{WHEN})", _until),
        (rf"(?P<unit>days) (?:until|till|to) (?P<when>{WHEN})", _until),
        (rf"how (?:many days|long) (?:ago (?:was|is)|(?:is it |has it been |have passed )?since) "
         rf"(?P<when>{WHEN})", _since),
        (r"how many days (?:are |is )?(?:there )?(?:left|remaining|remain) (?:in|of) (?:this|the)"
         r" year", _left_in_year),
        (rf"(?:how many )?days (?:are |is it )?(?:there )?(?:between|from) (?P<when>{WHEN}) (?:and|to|until) "
         rf"(?P<end>{WHEN})", _between),
        (r"(?:is|was|will) (?P<year>\d{4}|this year|next year|last year) (?:be )?a leap year", _leap),
        (rf"how many days (?:are |does |do |has |is |there )*(?:in )?(?P<month>{_MONTH}|this"
         rf" month|the month)"
         r"(?: (?P<year>\d{4}))?(?: have)?", _days_in_month),
        (rf"is (?:(?:today|tomorrow) (?:an? |the )?|it (?:the )?(?:an? (?=.* (?:today|tomorrow)))?)"
         rf"{_KIND_OF_DAY}"
         r"(?: today| tomorrow| yet| already| now)?(?P<other> or (?:an? |the )?[a-z]+)?", _kind_of_day),
        (r"how many days (?:are |does |do |there )*(?:in )?(?:a |the |1 )?(?P<leap>leap"
         r" )?year(?: have)?", _days_in_year),
        (r"(?:what|which) (?:day|month)?(?: of the (?:week|year))? ?"
         r"(?:(?:comes|is|goes) (?:right |just |directly )?(?:after|before)|follows|precedes)"
         rf" (?P<name>{_DAY}|{'|'.join(_MONTHS)})", _neighbour),
    )
)  # fmt: skip


def answer_date(text: str, now: datetime) -> str | None:
    """The answer to a question about time and dates; `text` is lower case, with numbers in digits."""
    text = re.sub("^on (?=what|which)", "", with_ordinals(text).replace("'", ""))
    text = re.sub(
        r"\b(?:my|the|her|his|our) [a-z]+(?: party)? on (?=[a-z]+ \d|the \d|\d)", "", text
    )
    for pattern, function in _RULES:
        if (found := pattern.fullmatch(text)) and (answer := function(found, now)):
            return answer
    return None


_COMPARES = re.compile(
    rf"(?:(?:and|so|but) )*is (?P<what>it|that|this|today) (?P<side>before|after)"
    r"(?P<either> or (?:before|after))?"
    rf" (?P<when>{WHEN})(?P<now> today| yet| already| now)?"
)
_DATED = re.compile(rf"\b\d{{1,2}} (?:{'|'.join(calendar.month_name[1:])}) \d{{4}}\b")


def compare_dates(text: str, previous: str, now: datetime) -> str | None:
    """Whether today, or the date that the answer `previous` says, is before or after another one."""
    found = _COMPARES.fullmatch(with_ordinals(text).replace("'", ""))
    if found is None:
        return None
    today, dated = now.date(), _DATED.findall(previous)
    if found["what"] == "today" or found["now"]:
        day: date | None = today
    else:
        day = _date_of(dated[-1].lower(), today) if dated else None
    when = day and _nearest(found["when"], day, today)
    if day is None or when is None:
        return None
    named = _named(found["when"])
    if re.fullmatch(_RELATIVE, found["when"]):
        named = named[0].lower() + named[1:]
    named = named or f"the {ordinal(when.day)} of {when:%B} {when.year}"
    side = "before" if day < when else "after"
    difference = f"{counted(abs((when - day).days), 'day')} {side} {named}"
    said = f"it is {'the same day' if day == when else difference}."
    if found["either"]:
        return said.capitalize() if day == when else f"It is {difference}."
    return f"{'Yes' if day != when and side == found['side'] else 'No'}, {said}"


def _nearest(text: str, day: date, today: date) -> date | None:
    """Of the dates that `text` may mean, the one nearest to `day`."""
    if _IS_FIXED.fullmatch(text):
        return _date_of(text, today)
    both = (_date_of(text, day, past=past) for past in (False, True))
    return min(filter(None, both), key=lambda when: abs((when - day).days), default=None)


def _date_of(text: str, today: date, *, past: bool = False) -> date | None:
    """The date that `text` (as in `WHEN`) names; without a year, the next one, or the last one."""
    text = re.sub(r"^the |^next (?=new|val|ind|hal|chr|box|eas|goo|tha)", "", text)
    if re.fullmatch(_RELATIVE, text):
        return _relative(text, today)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return _valid(lambda: date.fromisoformat(text))
    named = re.search(r"\b\d{4}$", text)
    year = int(named[0]) if named else today.year + ("next year" in text)
    name = re.sub(r" (?:this|next) year$| (?:in )?\d{4}$", "", text)
    if named or re.search("(?:this|next) year$", text):
        return _valid(lambda: _in_year(name, year))
    for later in range(_LONGEST_TO_LEAP_DAY + 1):
        nearest = year - later if past else year + later
        dated = _valid(functools.partial(_in_year, name, nearest))
        if dated and (dated <= today if past else dated >= today):
            return dated
    return None


_LONGEST_TO_LEAP_DAY = 8
"""Years, from 1896 to 1904."""


def _valid(make: Callable[[], date]) -> date | None:
    try:
        return make()
    except ValueError:  # the 31st of June
        return None


def _in_year(name: str, year: int) -> date:
    if name in _MOVING_HOLIDAYS:
        return _MOVING_HOLIDAYS[name](year)
    if name in _FIXED_HOLIDAYS:
        return date(year, *_FIXED_HOLIDAYS[name])
    day, month = re.search(r"\d+", name), re.search(_MONTH, name)
    if day is None or month is None:
        raise ValueError(name)
    return date(year, _month_number(month[0]), int(day[0]))


def _relative(text: str, today: date) -> date | None:
    fixed = {"today": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2,
             "day before yesterday": -2}  # fmt: skip
    if text in fixed:
        return today + timedelta(days=fixed[text])
    if weekday := re.search(_DAY, text):
        ahead = (_DAYS.index(weekday[0]) - today.weekday()) % 7
        if text.startswith("last"):
            ahead -= 7
        elif not ahead and not text.startswith("this"):
            ahead = 7
        return today + timedelta(days=ahead)
    count = re.search(r"\d+", text)
    number = int(count[0]) if count else 1
    number = -number if text.endswith("ago") else number
    try:
        if "year" in text:
            return today.replace(year=today.year + number)
        return today + timedelta(days=number * (7 if "week" in text else 1))
    except (ValueError, OverflowError):  # the 29th of February, or beyond the calendar
        return None


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name[:3]))
