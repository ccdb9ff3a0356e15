"""Dates, times of day, years and decades. Ambiguous dates are read as in the United States."""

from antiphon.inference_worker.engines.local.spoken_text.lexicon import MONTHS, WEEKDAYS
from antiphon.inference_worker.engines.local.spoken_text.numerals import (
    cardinal,
    ordinal,
    plural,
    year,
)
from antiphon.inference_worker.engines.local.spoken_text.rule import (
    NEXT_WORD,
    Match,
    ReadingRule,
    after,
    before,
    is_in_sum,
    rule,
)

_MONTH = rf"(?P<month>{'|'.join(MONTHS)}|(?:{'|'.join([*(m[:3] for m in MONTHS), 'Sept'])})\b\.?)"
_SHORT = "|".join(name[:3] for name in [*MONTHS, *WEEKDAYS])
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_ENDING = r"(?:st|nd|rd|th)"
_YEAR_WORDS = frozenset(
    [
        "in",
        "since",
        "by",
        "until",
        "till",
        "from",
        "year",
        "circa",
        "during",
        "before",
        "after",
        "around",
        "late",
        "early",
        "mid",
        "summer",
        "winter",
        "spring",
        "fall",
        "autumn",
        "copyright",
        "born",
        "died",
        "back",
    ]
)
_VERBS = frozenset(
    [
        "is",
        "was",
        "has",
        "as",
        "its",
        "this",
        "does",
        "thus",
        "perhaps",
        "always",
        "towards",
        "besides",
        "unless",
        "plus",
        "minus",
    ]
)
_PEOPLE = frozenset(
    [
        "people",
        "men",
        "women",
        "children",
        "percent",
        "of",
        "more",
        "or",
        "other",
        "different",
        "million",
        "units",
    ]
)


def _month(text: str) -> str:
    return next(month for month in MONTHS if month.startswith(text[:3]))


def _calendar(day: str, month: int, year_of: str) -> str | None:
    if not (1 <= month <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{MONTHS[month - 1]} {ordinal(int(day))}, {year(int(year_of))}"


def _iso(match: Match) -> str | None:
    return _calendar(match["day"], int(match["month"]), match["year"])


def _with_slashes(match: Match) -> str | None:
    first, second, of = match["first"], match["second"], match["year"]
    if len(of) == 2:
        of = f"20{of}"
    day_first = match["sign"] == "." or int(first) > 12
    day, month = (first, second) if day_first else (second, first)
    return _calendar(day, int(month), of)


def _month_day(match: Match) -> str:
    said = f"{_month(match['month'])}{NEXT_WORD}{ordinal(int(match['day']))}"
    return f"{said} to {ordinal(int(match['last']))}" if match["last"] else said


def _day_month(match: Match) -> str:
    the = "" if before(match).lower() == "the" else "the "
    last = f" to {ordinal(int(match['last']))}" if match["last"] else ""
    return f"{the}{ordinal(int(match['day']))}{last} of{NEXT_WORD}{_month(match['month'])}"


def _month_alone(match: Match) -> str:
    return _month(match["month"])


def _weekday(match: Match) -> str:
    return next(day for day in WEEKDAYS if day.startswith(match["weekday"]))


def _named_range(match: Match) -> str:
    """As in "Mon-Fri"."""
    ends = (match["first"], match["last"])
    first, last = (next(one for one in [*MONTHS, *WEEKDAYS] if one.startswith(end)) for end in ends)
    return f"{first} to {last}"


def _time(match: Match) -> str | None:
    hour, minute = int(match["hour"]), int(match["minute"])
    if is_in_sum(match) and not match["half"]:
        return None
    said = f"{cardinal(hour)} {_minutes(hour, minute, short=bool(match['half']))}"
    if match["second"]:
        seconds = cardinal(int(match["second"]))
        said = f"{cardinal(hour)} {_minutes(hour, minute, short=False)} and {seconds} seconds"
    if not hour and not minute and not match["half"] and not match["second"]:
        said = "midnight"
    return said.strip() + _half(match)


def _minutes(hour: int, minute: int, *, short: bool) -> str:
    if minute:
        return f"{'oh ' if minute < 10 else ''}{cardinal(minute)}"
    if short:
        return ""
    return "o'clock" if hour <= 12 else "hundred"


def _half(match: Match) -> str:
    """The half of the day, with the letters joined so that "a" is spoken as a letter."""
    half = match["half"]
    if not half:
        return ""
    return f"{NEXT_WORD if match['gap'] else ' '}{half[0].upper()}-M{_last_dot(match)}"


def _last_dot(match: Match) -> str:
    return "." if match["half"].endswith(".") and not after(match) else ""


def _hour(match: Match) -> str:
    return f"{cardinal(int(match['hour']))}{_half(match)}"


def _decade(match: Match) -> str:
    decade = int(match["decade"])
    if decade % 1000 == 0 and decade:
        return plural(year(decade))
    return plural(year(decade) if decade >= 100 else cardinal(decade))


def _years(match: Match) -> str | None:
    """A range of years: the end may have two digits."""
    if is_in_sum(match):
        return None
    first, last = match["first"], match["last"]
    ascending = int(first) < int(last if len(last) == 4 else first[:2] + last)
    end = year(int(last)) if len(last) == 4 else cardinal(int(last))
    joint = f" to{NEXT_WORD}" if match["gap"] else " to "
    return f"{year(int(first))}{joint}{end}" if ascending else None


def _year(match: Match) -> str | None:
    """None for a number that counts something."""
    previous, following = before(match).lower().lstrip("("), after(match)
    counts = following in _PEOPLE or (
        following.rstrip(".,;:!?").endswith("s")
        and following[:1].islower()
        and following not in _VERBS
    )
    named = previous in _YEAR_WORDS or previous.rstrip(".,").title() in MONTHS
    touched = match.string[match.end() :][:1]
    if (
        is_in_sum(match)
        or (match[0] < "1100" and not named)
        or (counts and not named and touched in ("", " "))
    ):
        return None
    return year(int(match[0]))


RULES: tuple[ReadingRule, ...] = (
    rule(
        r"(?<![\w-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?:T(?=\d)|\b)",
        _iso,
    ),
    rule(
        r"(?<![\w/.])(?P<first>\d{1,2})(?P<sign>[/.-])(?P<second>\d{1,2})(?P=sign)(?P<year>\d{4}|(?<=/)\d{2})(?![\w/]|\.\d)",
        _with_slashes,
    ),
    rule(
        rf"\b{_MONTH} {_DAY}{_ENDING}?(?:{'[-–—]'}(?P<last>\d{{1,2}}){_ENDING}?)?(?![\w:]|[.,]\d)",
        _month_day,
    ),
    rule(
        rf"(?<![\w.,/:-]){_DAY}{_ENDING}?(?:{'[-–—]'}(?P<last>\d{{1,2}}))?(?: of)? {_MONTH}(?!\w)",
        _day_month,
    ),
    rule(rf"\b{_MONTH}(?= \d)", _month_alone),
    rule(
        rf"\b(?P<month>(?:{'|'.join(m[:3] for m in MONTHS if m != 'May')}|Sept)\b)\.", _month_alone
    ),
    rule(rf"\b(?P<first>{_SHORT})\.?[-–](?P<last>{_SHORT})\b", _named_range),
    rule(
        rf"\b(?P<weekday>{'|'.join(d[:3] for d in WEEKDAYS)})\.?"
        rf"(?=,? (?:\d|{'|'.join(m[:3] for m in MONTHS)}))",
        _weekday,
    ),
    rule(
        r"(?:(?<![\w:.])|(?<=\dT))(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d+)?)?Z?"
        r"(?:(?P<gap> )?(?P<half>[aApP]\.[mM]\.|[aApP][mM]\b))?(?![\w:])",
        _time,
    ),
    rule(
        r"(?<![\w:.,])(?P<hour>1[0-2]|0?[1-9])(?P<gap> )?(?P<half>[aApP]\.[mM]\.|[ap]m\b|[AP]M\b)",
        _hour,
    ),
    rule(r"(?<![\w.,])'?(?P<decade>[12]\d\d0|[2-9]0)'?s\b", _decade),
    rule(
        r"(?<![\w.,-])(?P<first>1[1-9]\d\d|20\d\d)(?P<gap> )?[-–—−](?(gap) )"
        r"(?P<last>1[1-9]\d\d|20\d\d|\d\d)(?![\w.,-]*\d)",
        _years,
    ),
    rule(r"(?<![\w.,])(?:1\d\d\d|20\d\d)(?![\w]|[.,]\d)", _year),
)
