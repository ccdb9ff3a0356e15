"""Conversions between units: "how many kilometres are five miles", "100 °F in Celsius"."""

import re
from dataclasses import dataclass
from fractions import Fraction

from antiphon.inference_worker.engines.local.rules.quantities.numbers import is_rounded, said


@dataclass(frozen=True, slots=True)
class _Unit:
    """`size` is in the base unit of `kind`. `zero` is the unit's zero in it, of temperatures only."""

    kind: str
    one: str
    many: str
    size: Fraction
    zero: Fraction = Fraction(0)


_TABLE = """
length|millimetre|millimetres|0.001|mm,millimeter,millimeters
length|centimetre|centimetres|0.01|cm,centimeter,centimeters
length|metre|metres|1|m,meter,meters
length|kilometre|kilometres|1000|km,kms,kilometer,kilometers
length|inch|inches|0.0254|in
length|foot|feet|0.3048|ft
length|yard|yards|0.9144|yd,yds
length|mile|miles|1609.344|mi
length|nautical mile|nautical miles|1852|
mass|milligram|milligrams|0.000001|mg
mass|gram|grams|0.001|g,gramme,grammes
mass|kilogram|kilograms|1|kg,kgs,kilo,kilos
mass|tonne|tonnes|1000|metric ton,metric tons
mass|ounce|ounces|0.028349523125|oz
mass|pound|pounds|0.45359237|lb,lbs
mass|stone|stone|6.35029318|
volume|millilitre|millilitres|0.001|ml,milliliter,milliliters
volume|centilitre|centilitres|0.01|cl,centiliter,centiliters
volume|litre|litres|1|l,liter,liters,leaders
volume|teaspoon|teaspoons|0.00492892159375|tsp
volume|tablespoon|tablespoons|0.01478676478125|tbsp
volume|fluid ounce|fluid ounces|0.0295735295625|fl oz
volume|cup|cups|0.2365882365|
volume|pint|pints|0.473176473|
volume|quart|quarts|0.946352946|
volume|gallon|gallons|3.785411784|us gallon,us gallons
area|square metre|square metres|1|square meter,square meters,sqm
area|square foot|square feet|0.09290304|sq ft,sqft
area|acre|acres|4046.8564224|
area|hectare|hectares|10000|ha
area|square kilometre|square kilometres|1000000|square kilometer,square kilometers
area|square mile|square miles|2589988.110336|
speed|kilometre per hour|kilometres per hour|1|km/h,kmh,kph,kilometers per hour,kilometers an hour
speed|mile per hour|miles per hour|1.609344|mph,miles an hour
speed|metre per second|metres per second|3.6|m/s,meters per second
speed|knot|knots|1.852|
time|millisecond|milliseconds|0.001|ms
time|second|seconds|1|sec,secs
time|minute|minutes|60|min,mins
time|hour|hours|3600|hr,hrs
time|day|days|86400|
time|week|weeks|604800|
time|year|years|31536000|
time|decade|decades|315360000|
time|century|centuries|3153600000|
data|bit|bits|1|
data|byte|bytes|8|
data|kilobyte|kilobytes|8000|kb
data|megabyte|megabytes|8000000|mb
data|gigabyte|gigabytes|8000000000|gb
data|terabyte|terabytes|8000000000000|tb
calendar|month|months|1|
"""


def _read_table() -> dict[str, _Unit]:
    units: dict[str, _Unit] = {}
    for line in _TABLE.strip().splitlines():
        kind, one, many, size, others = line.split("|")
        unit = _Unit(kind, one, many, Fraction(size))
        names = [one, many, *others.split(",")]
        units |= dict.fromkeys([name for name in names if name], unit)
    celsius = _Unit("temperature", "degree Celsius", "degrees Celsius", Fraction(1))
    fahrenheit = _Unit(
        "temperature", "degree Fahrenheit", "degrees Fahrenheit", Fraction(5, 9), Fraction(-160, 9)
    )
    kelvin = _Unit("temperature", "kelvin", "kelvin", Fraction(1), Fraction("-273.15"))
    for short, unit in (("c", celsius), ("f", fahrenheit), ("k", kelvin)):
        name = {"c": "celsius", "f": "fahrenheit", "k": "kelvin"}[short]
        names = [name, f"degrees {name}", f"degree {name}", f"degrees {short}"]
        units |= dict.fromkeys([*names, *((short,) if short != "k" else ())], unit)
    units |= dict.fromkeys(("centigrade", "degrees centigrade"), celsius)
    return units


_UNITS = _read_table()
_YEAR = _Unit("calendar", "year", "years", Fraction(12))
_NAME = "|".join(sorted((re.escape(name) for name in _UNITS), key=len, reverse=True))
_COUNT = r"(-?\d+(?:\.\d+)?|minus \d+(?:\.\d+)?|an?|one|half an?|the)"
_QUANTITY = rf"(?:{_COUNT}\s*)?({_NAME})(?:(?: and)? (\d+(?:\.\d+)?)\s*({_NAME})?)?"
_CONVERT = re.compile(
    rf"(?:convert|change|what is|what are|how much is|how much are|how long is|how far is|how tall"
    rf" is|how heavy is|how hot is|how cold is|how fast is|express)?\s*{_QUANTITY}"
    rf" (?:in|to|into|as|equals how many|is how many|are how many) (?:the )?({_NAME})"
)
_IF_I_HAVE = re.compile(
    rf"(?:so )?(?:if|when) (?:i|you|we) (?:need|have|want|use|take|buy) {_QUANTITY}(?: of [a-z ]+?)?"
    rf" how many ({_NAME})(?: is (?:that|it)| are (?:that|those)| do i need)?"
)
_AND_A_HALF = re.compile(rf"\b(?:an?|(\d{{1,15}})) ({_NAME}) and a (half|quarter)\b")
_HOW_MANY = re.compile(
    rf"(?:how many|how much|number of|what is the number of) ({_NAME})"
    rf"(?: is| are| in| does| do| make| makes| there| equal| equals| to| per| fit| go| into| of| that)*"
    rf" {_QUANTITY}(?: have| has| contain| last| in it| long| equal| make)?"
)


def answer_conversion(text: str) -> str | None:
    """The answer to a question for a conversion; `text` is lower case, with numbers in digits."""
    text = _AND_A_HALF.sub(_with_half, text)
    if found := _CONVERT.fullmatch(text) or _IF_I_HAVE.fullmatch(text):
        count, name, more, other, target = found.groups()
    elif found := _HOW_MANY.fullmatch(text):
        target, count, name, more, other = found.groups()
    else:
        return None
    source, wanted = _UNITS[name], _UNITS[target]
    if {source.kind, wanted.kind} == {"time", "calendar"} and "year" in (source.one, wanted.one):
        source, wanted = (_YEAR if unit.one == "year" else unit for unit in (source, wanted))
    if source is wanted or source.kind != wanted.kind:
        return None
    amount = _amount(count)
    base = source.zero + amount * source.size
    spoken = _quantity(amount, source)
    if more is not None:
        part = _UNITS[other] if other else _below(source)
        if part is None or part.kind != source.kind:
            return None
        base += Fraction(more) * part.size
        spoken += f" and {_quantity(Fraction(more), part)}"
    value = (base - wanted.zero) / wanted.size
    rounded = _rounded(value)
    about = "about " if rounded != value or is_rounded(rounded) else ""
    verb = "is" if amount == 1 and more is None else "are"
    return f"{spoken[0].upper()}{spoken[1:]} {verb} {about}{_quantity(rounded, wanted)}."


_DIGITS = 5


def _rounded(value: Fraction) -> Fraction:
    """With at most two places after the point; a large number has fewer digits that count."""
    if abs(value) < 1 or value.denominator == 1:
        return value
    whole = len(str(abs(int(value))))
    return Fraction(round(value, 2 if whole < _DIGITS else _DIGITS - whole))


def _with_half(found: re.Match[str]) -> str:
    """ "1.5 hour" of "an hour and a half"."""
    return f"{found[1] or 1}.{'5' if found[3] == 'half' else '25'} {found[2]}"


_THAT_IN = re.compile(
    r"(?:and |so )*(?:(?:what|how (?:much|tall|high|long|big|deep|wide|far|heavy|fast|hot|cold)) is"
    rf" (?:that|it) |that )?in (?P<unit>{_NAME})"
    rf"|(?:and |so )*how many (?P<units>{_NAME}) (?:is|are) (?:that|it|those)"
)
_QUANTITIES = re.compile(
    rf"(?<![\d.])(-?\d{{1,40}}(?:\.\d{{1,40}})? (?:{_NAME})\b)((?: and)? \d{{1,40}}\b(?: (?:{_NAME})\b)?)?"
)


def convert_previous(text: str, previous: str) -> str | None:
    """The last quantity of `previous` in the unit for which `text` asks; both in plain form."""
    found = _THAT_IN.fullmatch(text)
    if found is None:
        return None
    target = found["unit"] or found["units"]
    for quantity, smaller in reversed(_QUANTITIES.findall(previous)):
        for whole in dict.fromkeys((f"{quantity}{smaller}", quantity)):
            if converted := answer_conversion(f"{whole} in {target}"):
                return converted
    return None


_LESS = "less|fewer|shorter|lighter|smaller|colder|cooler|lower|slower|nearer|younger"
_MORE = "more|longer|heavier|bigger|larger|taller|hotter|warmer|further|farther|higher|faster|older"
_COMPARES = re.compile(
    rf"(?:(?:and|so|but) )*is (?:that|it|this) (?:(?P<more>{_MORE})|{_LESS})"
    rf"(?P<either> or (?:{_MORE}|{_LESS}))?"
    rf" than {_COUNT} ?({_NAME})"
)
_QUANTITY_WITH_PART = re.compile(
    rf"(?<![\d.])(-?\d{{1,40}}(?:\.\d{{1,40}})?) ({_NAME})\b"
    rf"(?: and (\d{{1,40}}(?:\.\d{{1,40}})?) ({_NAME})\b)?"
)


def compare_previous(text: str, previous: str) -> str | None:
    """Whether the last quantity of `previous` is more than the one in `text`; both in plain form."""
    found = _COMPARES.fullmatch(text)
    if found is None:
        return None
    more, either, count, name = found.groups()
    other, amount = _UNITS[name], _amount(count)
    limit = other.zero + amount * other.size
    for first, unit_name, second, part_name in reversed(_QUANTITY_WITH_PART.findall(previous)):
        unit, part = _UNITS[unit_name], _UNITS[part_name or unit_name]
        if {unit.kind, part.kind} != {other.kind}:
            continue
        value = unit.zero + Fraction(first) * unit.size + Fraction(second or 0) * part.size
        spoken = _quantity(Fraction(first), unit)
        spoken += f" and {_quantity(Fraction(second), part)}" if second else ""
        side = "equal to" if value == limit else "more than" if value > limit else "less than"
        verb = "is" if first == "1" and not second else "are"
        begin = (
            "" if either else f"{'Yes' if side.startswith('more' if more else 'less') else 'No'}, "
        )
        return f"{begin}{spoken} {verb} {side} {_quantity(amount, other)}."
    return None


def is_unit(name: str) -> bool:
    return name.lower() in _UNITS


def _amount(count: str | None) -> Fraction:
    if count is None or count in ("a", "an", "one", "the"):
        return Fraction(1)
    if count.startswith("half"):
        return Fraction(1, 2)
    return Fraction(count.replace("minus ", "-"))


def _quantity(amount: Fraction, unit: _Unit) -> str:
    return f"{said(amount)} {unit.one if amount == 1 else unit.many}"


def _below(unit: _Unit) -> _Unit | None:
    """The unit of the second number in "six feet two"."""
    name = {"foot": "inch", "pound": "ounce", "stone": "pound", "hour": "minute"}.get(unit.one)
    return _UNITS[name] if name else None
