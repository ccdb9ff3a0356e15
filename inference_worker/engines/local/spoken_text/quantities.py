"""Amounts of money, units, percent, fractions and plain numbers."""

import re
import unicodedata
from fractions import Fraction

from antiphon.inference_worker.engines.local.spoken_text.lexicon import (
    ATTACHED_UNITS,
    CURRENCIES,
    MAGNITUDES,
    MONTHS,
    UNITS,
)
from antiphon.inference_worker.engines.local.spoken_text.numerals import (
    cardinal,
    digits,
    fraction,
    number,
    ordinal,
)
from antiphon.inference_worker.engines.local.spoken_text.rule import (
    DASH,
    LETTERS,
    NEXT_WORD,
    NUMBER,
    Match,
    ReadingRule,
    after,
    any_of,
    before,
    is_in_sum,
    rule,
)

_UNIT = any_of(UNITS)
_POWER = r"(?P<power>[²³]|\^[23])?"
_PER = rf"/(?P<per>{any_of(UNITS)}|s)(?P<per_power>[²³]|\^[23])?"
_UNIT_ENDS = r"(?![\w/^²³])"
_MAGNITUDE = (
    rf"(?:(?P<gap> )?(?P<magnitude>{any_of(MAGNITUDES)}|thousand|million|billion|trillion)\b)?"
)
_SYMBOLS = any_of(name for name in CURRENCIES if not name.isalpha())
_CODES = any_of(name for name in CURRENCIES if name.isalpha())
_ONE_SYMBOL = "".join(name for name in CURRENCIES if not name.isalnum() and len(name) == 1)
_AMOUNT = rf"(?:\d{{1,3}}(?:\.\d{{3}})+(?:,\d{{2}})?(?!\d)|\d+,\d{{2}}(?!\d)|{NUMBER}|\.\d+)"
_PRICED = frozenset(
    [
        "bill",
        "note",
        "coin",
        "fee",
        "fine",
        "gift",
        "check",
        "cheque",
        "discount",
        "budget",
        "deal",
        "reward",
        "prize",
        "loan",
        "ticket",
    ]
)
_POWERS = {"²": "square", "^2": "square", "³": "cubic", "^3": "cubic"}
_POINT_CURRENCIES = frozenset(["£", "GBP", "USD", "CAD", "AUD"])
"""With all dollars, those before which "1.500" is one and a half."""

_PERIODS = {"mo": "month", "wk": "week", "pp": "person"}


def _money(match: Match) -> str:
    """As in "three dollars and fifty cents", "one point two million pounds"."""
    currency = match["currency"]
    has_point = currency.endswith("$") or currency in _POINT_CURRENCIES
    amount = _with_point(match["amount"], has_point=has_point or bool(match["magnitude"]))
    negative = match["inner"] or (match["sign"] and match["sign"] in "-−–")
    sign = "minus " if negative else ""
    if to := match["to"]:
        joint = f"{number(amount)} to {number(to)}"
        return f"{sign}{joint} {CURRENCIES[currency][1]}"
    if magnitude := match["magnitude"]:
        joint = NEXT_WORD if match["gap"] else " "
        scale = MAGNITUDES.get(magnitude, magnitude)
        return f"{sign}{number(amount)}{joint}{scale} {CURRENCIES[currency][1]}"
    one, many, *_ = CURRENCIES[currency]
    said = sign + _coins(amount, currency)
    return (
        said.removesuffix(many) + one
        if after(match).rstrip(".,;:!?") in _PRICED and said.endswith(many)
        else said
    )


def _money_after(match: Match) -> str:
    amount = _with_point(match["amount"], has_point=bool(match["magnitude"]))
    currency = match["currency"]
    if magnitude := match["magnitude"]:
        joint = NEXT_WORD if match["gap"] else " "
        said = f"{number(amount)}{joint}{MAGNITUDES.get(magnitude, magnitude)}"
        return f"{said}{NEXT_WORD if match['space'] else ' '}{CURRENCIES[currency][1]}"
    said = _coins(amount, currency)
    head, _, name = said.partition(" " + CURRENCIES[currency][0])
    if match["space"] and not name.strip().startswith("and"):
        return f"{head}{NEXT_WORD}{CURRENCIES[currency][0]}{name}"
    return said


def _with_point(amount: str, *, has_point: bool) -> str:
    """`amount` with a decimal point, if it is written with a decimal comma: "1.000,50".

    `has_point`: "1.500" is one and a half.
    """
    if re.fullmatch(r"0\.\d{3}", amount) or (has_point and re.fullmatch(r"\d+\.\d{3}", amount)):
        return amount
    if re.fullmatch(r"\d+,\d{2}|\d{1,3}(?:\.\d{3})+(?:,\d{2})?", amount):
        return amount.replace(".", "").replace(",", ".")
    return amount


def _coins(amount: str, currency: str) -> str:
    one, many, coin, coins = CURRENCIES[currency]
    whole, _, rest = amount.replace(",", "").partition(".")
    if not coin or (rest and len(rest) != 2):
        return f"{number(amount)} {many}"
    large = f"{number(whole)} {one if whole == '1' else many}" if whole else ""
    cents = int(rest or 0)
    small = f"{cardinal(cents)} {coin if cents == 1 else coins}" if cents else ""
    if small and not int(whole or 0):
        return small
    return f"{large} and {small}" if small else large


def _cents(match: Match) -> str:
    return f"{number(match['amount'])} {'cent' if match['amount'] == '1' else 'cents'}"


def _measure(match: Match) -> str | None:
    """A number with a unit, or a range of them."""
    unit, space = match["unit"], match["space"]
    if space and unit in ATTACHED_UNITS:
        return None
    said = number(match["amount"])
    if unit == "%" and space and after(match)[:1].isdecimal():
        return f"{said}{NEXT_WORD}modulo"
    if match["to"]:
        said += f" to {number(match['to'])}"
    one = match["amount"] == "1" and not match["to"]
    name = UNITS[unit][0 if one else 1]
    if power := match["power"]:
        name = f"{_POWERS[power]} {name}"
    if match["per"]:
        name = f"{name} {_per_unit(match)}"
    return f"{said}{NEXT_WORD if space else ' '}{name}"


def _rate(match: Match) -> str:
    """A unit without a number: "km/h"."""
    power = f"{_POWERS[match['power']]} " if match["power"] else ""
    return f"{power}{UNITS[match['unit']][1]} {_per_unit(match)}"


def _per_unit(match: Match) -> str:
    """As in "per cubic meter", "per second squared"."""
    unit, power = match["per"], match["per_power"]
    name = UNITS[unit][0]
    if not power:
        return f"per {name}"
    if name == "second":
        return f"per second {'squared' if power in ('²', '^2') else 'cubed'}"
    return f"per {_POWERS[power]} {name}"


def _price_per(match: Match) -> str | None:
    """A short unit after an amount of money: "$5/hr"."""
    price = before(match)
    if not re.search(rf"[{re.escape(_ONE_SYMBOL)}]|(?:^|\d)(?:{_CODES})$", price):
        return None
    return f"per {_PERIODS[match['period']]}" if match["period"] else _per_unit(match)


def _per(match: Match) -> str:
    return f"per {match['word']}"


def _feet(match: Match) -> str:
    inches = f" {number(match['inches'])}" if match["inches"] else ""
    return f"{number(match['feet'])} {'foot' if inches or match['feet'] == '1' else 'feet'}{inches}"


def _inches(match: Match) -> str:
    return f"{number(match['amount'])} {'inch' if match['amount'] == '1' else 'inches'}"


def _fraction(match: Match) -> str:
    upper, lower = int(match["upper"]), int(match["lower"])
    previous = before(match).lower()
    if previous == "on" and 1 <= upper <= 12 and 1 <= lower <= 31 and not match["whole"]:
        return f"{MONTHS[upper - 1]} {ordinal(lower)}"
    if upper == lower and not is_in_sum(match):
        return f"{cardinal(upper)} {cardinal(lower)}"
    if upper >= lower and is_in_sum(match):
        return f"{cardinal(upper)} divided by {cardinal(lower)}"
    said = fraction(upper, lower)
    if match["whole"]:
        return f"{number(match['whole'])}{NEXT_WORD}and {_with_article(said)}"
    return said


def _with_article(said: str) -> str:
    return re.sub(r"^one (?=half|quarter)", "a ", said)


def _vulgar(match: Match) -> str | None:
    """One character, such as "¾" or "Ⅷ" or "①"."""
    value = Fraction(unicodedata.numeric(match["sign"])).limit_denominator(100)
    if value.denominator == 1:
        said = cardinal(int(value))
        return f"{number(match['whole'])} {said}" if match["whole"] else said
    said = fraction(value.numerator, value.denominator)
    return f"{number(match['whole'])} and {_with_article(said)}" if match["whole"] else said


def _ordinal(match: Match) -> str:
    return ordinal(int(match["number"].replace(",", "")))


def _attached_magnitude(match: Match) -> str:
    return f"{number(match['amount'])} {MAGNITUDES[match['magnitude']]}"


def _scientific(match: Match) -> str:
    minus = "minus " if match["sign"] == "-" else ""
    power = number(match["power"].lstrip("0") or "0")
    return f"{number(match['amount'])} times ten to the power of {minus}{power}"


def _mixed(match: Match) -> str | None:
    """Letters and digits in one word: "H2O", "MP3", "A4", "GPT-4"."""
    if re.fullmatch(r"\d+[xX]\d+", match[0]):
        return None
    parts = re.findall(rf"\d+(?:\.\d+)?|[{LETTERS}]+", match[0])
    said = [_part(part, alone=len(parts) == 1) for part in parts]
    capitals = all(part[0].isdigit() or (part.isupper() and len(part) <= 3) for part in parts)
    return ("-" if capitals and not match[0][0].isdigit() else " ").join(said)


def _part(part: str, *, alone: bool) -> str:
    if part[0].isdigit():
        return number(part) if len(part) <= 3 or "." in part else _pairs(part)
    if part.isupper() and 1 < len(part) <= 3 and not alone:
        return "-".join(part)
    return part


def _pairs(part: str) -> str:
    """Four digits in a name are spoken in pairs, more one by one."""
    if len(part) == 4 and part[0] != "0" and part[2] != "0":
        return f"{cardinal(int(part[:2]))} {cardinal(int(part[2:]))}"
    return digits(part) if len(part) > 4 else number(part)


def _number(match: Match) -> str:
    return number(match[0])


RULES: tuple[ReadingRule, ...] = (
    rule(
        rf"(?<!\w)(?P<sign>[-−–+])?(?P<currency>{_SYMBOLS}|(?:{_CODES})(?= ?\d))"
        rf" ?(?P<inner>[-−–](?=[\d.]))?(?P<amount>{_AMOUNT})"
        rf"(?:[-–—](?:{_SYMBOLS})?(?P<to>{NUMBER})(?![\w]))?{_MAGNITUDE}",
        _money,
    ),
    rule(
        rf"(?<![\w.,])(?P<amount>{_AMOUNT}){_MAGNITUDE}(?P<space> )?"
        rf"(?P<currency>{_SYMBOLS}|(?:{_CODES})\b)(?! ?\d)",
        _money_after,
    ),
    rule(rf"(?<![\w.,])(?P<amount>{NUMBER}) ?¢", _cents),
    rule(
        rf"(?<![\w.,])(?P<amount>{NUMBER}|\.\d+)(?:(?:{DASH}|—)(?P<to>{NUMBER}))?"
        rf"(?P<space> )?(?P<unit>{_UNIT}){_POWER}"
        rf"(?:{_PER})?{_UNIT_ENDS}",
        _measure,
    ),
    rule(rf"(?<![\w/])(?P<unit>{_UNIT}){_POWER}{_PER}{_UNIT_ENDS}", _rate),
    rule(
        r"(?<=[\w€$£%])/ ?(?P<word>second|minute|hour|day|night|week|month|year|person|user|unit"
        r"|liter|litre|gallon|kilo|mile)\b",
        _per,
    ),
    rule(rf"(?:/(?P<period>{any_of(_PERIODS)})|{_PER}){_UNIT_ENDS}", _price_per),
    rule(r"(?<![\w.,])(?P<feet>\d{1,3})'(?:(?P<inches>\d{1,2})\"?)?(?!\w)", _feet),
    rule(r"(?<![\w.,\"])(?P<amount>\d{1,3}(?:\.\d+)?)\"(?!\w)", _inches),
    rule(
        r"(?<![\w.,/])(?:(?P<whole>\d+) )?(?P<upper>\d{1,3})[/⁄](?P<lower>\d{1,3})(?![\w/]|[.,]\d)",
        _fraction,
    ),
    rule(rf"(?<![\w.,])(?P<whole>{NUMBER}) ?(?P<sign>[¼-¾⅐-⅞])(?!\w)", _vulgar),
    rule(r"(?P<whole>)(?P<sign>[¼-¾⅐-⅞Ⅰ-Ⅿⅰ-ⅿ①-⑳])", _vulgar),
    rule(
        r"(?<![\w.])(?P<number>\d{1,3}(?:,\d{3})+|\d{1,15})(?:st|nd|rd|th|ST|ND|RD|TH)\b", _ordinal
    ),
    rule(
        rf"(?<![\w.,])(?P<amount>{NUMBER})[eE](?P<sign>[+-])?(?P<power>\d{{1,4}})(?!\w)",
        _scientific,
    ),
    rule(rf"(?<![\w.,])(?P<amount>{NUMBER})(?P<magnitude>M|mn|bn|tn)\b", _attached_magnitude),
    rule(
        rf"(?<![\w.])(?=\d*[{LETTERS}])(?=[{LETTERS}]*\d)(?:\d+\.\d+)?[\d{LETTERS}]{{2,}}(?:-\d+(?:\.\d+)?(?!\w))?"
        r"|(?<![\w.])[A-Z]{1,8}-\d+(?:\.\d+)?(?!\w)",
        _mixed,
    ),
    rule(rf"{NUMBER}|(?<!\d)\.\d+|\d+", _number),
)
