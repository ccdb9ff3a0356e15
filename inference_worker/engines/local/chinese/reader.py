"""What a Chinese voice says for the words of an answer: numbers, dates, amounts, units and signs in Chinese."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

from antiphon.inference_worker.engines.local.chinese.script import has_han
from antiphon.inference_worker.engines.local.spoken_text.reader import is_latin
from antiphon.inference_worker.engines.local.spoken_text.reader import spoken_words as english_words

_DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "万亿", "亿亿")
_MOST_DIGITS = 16
_TELEPHONE_ONE = "幺"


def digits(text: str, *, telephone: bool = False) -> str:
    """Each digit on its own: 2026 as 二零二六. In numbers of telephones, 1 is 幺."""
    said = "".join(_DIGITS[int(digit)] for digit in text if digit.isdecimal())
    return said.replace("一", _TELEPHONE_ONE) if telephone else said


def number(text: str) -> str:
    """A decimal number with or without commas: `1,250.5`. A leading zero makes it a row of digits."""
    whole, _, fraction = text.replace(",", "").partition(".")
    if len(whole) > _MOST_DIGITS or (len(whole) > 1 and whole.startswith("0")):
        said = digits(whole)
    else:
        said = integer(int(whole or "0"))
    return f"{said}点{digits(fraction)}" if fraction else said


def integer(value: int) -> str:
    """12 as 十二, 20 000 as 两万."""
    if value == 0:
        return _DIGITS[0]
    parts: list[str] = []
    for place in range(len(_GROUPS) - 1, -1, -1):
        group = value // 10_000**place % 10_000
        if group:
            # A place that is left out is said as one zero: 一万零五.
            gap = bool(parts) and group < 1000
            parts.append(f"{_DIGITS[0] * gap}{_group(group)}{_GROUPS[place]}")
    said = re.sub("^一十", "十", "".join(parts))
    return re.sub("二(?=[千万亿])(?<!十二)", "两", said)


def _group(value: int) -> str:
    """1 to 9999."""
    said = ""
    for place in range(3, -1, -1):
        digit = value // 10**place % 10
        if digit:
            said += f"{_DIGITS[digit]}{_PLACES[place]}"
        elif said and value % 10**place and not said.endswith(_DIGITS[0]):
            said += _DIGITS[0]
    return said


_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_NO_DIGIT_BEFORE = r"(?<![\d.,A-Za-z])"
_MINUS = r"(?:(?<![A-Za-z0-9)])[-−])?"

_CURRENCIES = {"¥": "元", "￥": "元", "$": "美元", "€": "欧元", "£": "英镑"}
_CODES = {"CNY": "元", "RMB": "元", "USD": "美元", "EUR": "欧元", "GBP": "英镑"}
_SIGNS = {
    "+": "加", "-": "减", "−": "减", "×": "乘", "*": "乘", "÷": "除以", "/": "除以", "=": "等于", "<": "小于",
    ">": "大于", "≤": "小于等于", "≥": "大于等于", "≈": "约等于", "≠": "不等于",
}  # fmt: skip
_ALONE = {
    "&": "和",
    "@": "艾特",
    "%": "百分号",
    "+": "加",
    "=": "等于",
    "×": "乘",
    "÷": "除以",
    "≈": "约等于",
    "√": "根号",
    "∞": "无穷大",
    "±": "正负",
    "π": "派",
}
_UNITS = {
    "kg/m³": "公斤每立方米", "g/cm³": "克每立方厘米", "cm³": "立方厘米",
    "km/h": "公里每小时", "m/s": "米每秒", "km²": "平方公里", "m²": "平方米", "m³": "立方米", "cm²": "平方厘米",
    "km": "公里", "cm": "厘米", "mm": "毫米", "nm": "纳米", "m": "米", "kg": "公斤", "mg": "毫克", "g": "克",
    "t": "吨", "ml": "毫升", "mL": "毫升", "L": "升", "l": "升", "kWh": "千瓦时", "kW": "千瓦", "MW": "兆瓦",
    "W": "瓦", "V": "伏", "mAh": "毫安时", "A": "安", "GHz": "吉赫", "MHz": "兆赫", "kHz": "千赫", "Hz": "赫兹",
    "TB": "太字节", "GB": "吉字节", "MB": "兆字节", "KB": "千字节", "kcal": "千卡", "kJ": "千焦", "dB": "分贝",
    "ms": "毫秒", "min": "分钟", "h": "小时", "s": "秒",
}  # fmt: skip
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_MEASURES = "个只条张位本件种次天年点块家台辆杯碗瓶双对岁周句首座棵匹头间层排页部名份颗片把套楼遍倍步升米克吨元"
"""Two of these are 两, not 二. Words of several characters follow."""
_MEASURE = rf"(?:[{_MEASURES}]|小时|分钟|星期|公里|公斤|美元|欧元|英镑|毫升|平方|立方|厘米|千克|[百千万亿])"
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", "0123456789-n")
_RAISED = r"(?:(?<=[\d)）π])|(?<=(?<![A-Za-z]{3})[A-Za-z]))"
"""After a number, a bracket or up to three letters."""
_RANGE = r"\s?[-–—~～至到]\s?"

_FULL_WIDTH = re.compile("[\uff01-\uff5e](?<![，！？；：（）～])")

_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def spoken_words(words: Sequence[str]) -> list[str]:
    """What is said for each of the shown `words`, which may be single characters.

    What is said for several words together, such as a date, is at the first of them.
    """
    text = "".join(map(_readable, words))
    ends = list(accumulate(map(len, words)))
    spoken: list[list[str]] = [[] for _ in words]
    at = 0
    while at < len(text):
        said, end = _say(text, at)
        spoken[bisect_right(ends, at)].append(said)
        at = end
    return ["".join(parts) for parts in spoken]


def _readable(word: str) -> str:
    """`word` with the usual form of each full-width letter, digit and sign, as long as before."""
    return _FULL_WIDTH.sub(lambda found: unicodedata.normalize("NFKC", found[0]), word)


def _say(text: str, at: int) -> tuple[str, int]:
    """What is said at `at`, and where the next part begins."""
    for pattern, said in _RULES:
        if found := pattern.match(text, at):
            return said(found), found.end()
    if has_han(text[at]):
        return text[at], at + 1
    if letters := _LETTERS.match(text, at):
        return f" {english_words([letters[0]])[0]} ", letters.end()
    return _ALONE.get(text[at]) or (text[at] if text[at] in _KEPT else _unsaid(text[at])), at + 1


_KEPT = "，。！？；：、…—,.!?;:“”()（）《》"
_LETTERS = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:['’.-][A-Za-z\u00c0-\u024f]+)*")


def _unsaid(character: str) -> str:
    return " " if character.isspace() or is_latin(character) else ""


def _count(text: str, following: str) -> str:
    """A number before `following`: 2 is 两 before a measure."""
    if text == "2" and re.match(rf"\s?{_MEASURE}", following):
        return "两"
    return number(text)


def _after(found: re.Match[str]) -> str:
    return found.string[found.end() : found.end() + 4]


def _cut_zeros(text: str) -> str:
    return re.sub(r"\.?0+$", "", text) if "." in text else text


def _clock(found: re.Match[str]) -> str:
    hour, minute = int(found["hour"]), int(found["minute"])
    said = f"{'两' if hour == 2 else integer(hour)}点"
    if minute:
        said += f"{'零' * (minute < 10)}{integer(minute)}分"
    if found["second"]:
        said += f"{'' if minute else '零分'}{integer(int(found['second']))}秒"
    return said


def _date(found: re.Match[str]) -> str:
    return (
        f"{digits(found['year'])}年{integer(int(found['month']))}月{integer(int(found['day']))}日"
    )


def _version(found: re.Match[str]) -> str:
    """1.12.0 as 一点十二点零, and 192.168.0.1 as 一九二点一六八点零点一."""
    return "点".join(
        digits(part) if len(part) > 2 else number(part) for part in found[0].split(".")
    )


def _percent(found: re.Match[str]) -> str:
    kind = "千分之" if found["sign"] == "‰" else "百分之"
    first = f"{_negative(found)}{kind}{number(found['first'])}"
    return f"{first}到{kind}{number(found['last'])}" if found["last"] else first


def _negative(found: re.Match[str]) -> str:
    return "负" if found["minus"] else ""


def _money(found: re.Match[str]) -> str:
    amount = found["amount"]
    name = _CURRENCIES.get(found["sign"] or "") or _CODES[found["code"]]
    following = found["large"] or name
    negative = "负" if found["inner"] else _negative(found)
    return f"{negative}{_count(_cut_zeros(amount), following)}{found['large'] or ''}{name}"


def _temperature(found: re.Match[str]) -> str:
    scale = "C" if "℃" in found[0] else (found["scale"] or "").upper()
    name = {"C": "摄氏度", "F": "华氏度"}.get(scale, "度")
    cold = "零下" if found["minus"] and name != "度" else _negative(found)
    return f"{cold}{number(found['number'])}{name}"


def _unit(found: re.Match[str]) -> str:
    first, last, name = found["first"], found["last"], _UNITS[found["unit"]]
    said = f"{_negative(found)}{_count(first, name)}"
    return f"{said}到{_count(last, name)}{name}" if last else f"{said}{name}"


def _fraction(found: re.Match[str]) -> str:
    return f"{integer(int(found['below']))}分之{integer(int(found['above']))}"


def _range(found: re.Match[str]) -> str:
    after = _after(found)
    return f"{_count(found['first'], after)}到{_count(found['last'], after)}"


def _power(found: re.Match[str]) -> str:
    power = found["power"].translate(_SUPERSCRIPTS)
    if power == "2":
        return "的平方"
    rest = power.lstrip("-−")
    said = number(rest) if rest.isdecimal() else f" {rest} "
    return f"的{'负' * (rest != power)}{said}次方"


def _vulgar(found: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(found["sign"])).limit_denominator(100)
    whole = f"{number(found['whole'])}又" if found["whole"] else ""
    return f"{whole}{integer(value.denominator)}分之{integer(value.numerator)}"


def _sign(found: re.Match[str]) -> str:
    return _SIGNS[found["sign"]]


def _plain(found: re.Match[str]) -> str:
    return f"{_negative(found)}{_count(found['number'], _after(found))}"


def _address(found: re.Match[str]) -> str:
    text = re.sub(r"^(?:https?://)?(?:www\.)?", "", found[0]).rstrip("/.")
    said = text.replace("@", " 艾特 ").replace(".", " 点 ").replace("/", " 斜杠 ")
    return f" {said.replace('-', ' 杠 ').replace('_', ' 下划线 ')} "


def _rule(pattern: str, said: Callable[[re.Match[str]], str]) -> _Rule:
    return re.compile(pattern), said


_RULES: tuple[_Rule, ...] = (
    _rule(
        r"(?:https?://|www\.)[\w./?=&#%-]+|[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
        _address,
    ),
    _rule(
        rf"{_NO_DIGIT_BEFORE}(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=mark)"
        r"(?P<day>[12]\d|3[01]|0?[1-9])(?!\d)(?!(?P=mark)\d)",
        _date,
    ),
    _rule(rf"{_NO_DIGIT_BEFORE}\d+(?:\.\d+){{2,}}", _version),
    _rule(
        rf"{_NO_DIGIT_BEFORE}\d{{4}}(?=\s?年)(?!\s?年(?:前|后|间|以))",
        lambda found: digits(found[0]),
    ),
    _rule(
        rf"{_NO_DIGIT_BEFORE}(?P<hour>[01]?\d|2[0-4])[:：](?P<minute>[0-5]\d)(?:[:：](?P<second>[0-5]\d))?(?!\d)",
        _clock,
    ),
    _rule(
        rf"{_NO_DIGIT_BEFORE}(?P<above>\d+)[:：](?P<below>\d+)(?![\d:：])",
        lambda found: f"{number(found['above'])}比{number(found['below'])}",
    ),
    _rule(
        rf"(?P<minus>{_MINUS})(?P<first>{_NUMBER})[%‰]?(?:{_RANGE}(?P<last>{_NUMBER}))?(?P<sign>[%‰])",
        _percent,
    ),
    _rule(
        rf"(?P<minus>{_MINUS})(?:(?P<sign>[¥￥$€£])\s?|(?P<code>CNY|RMB|USD|EUR|GBP)\s?)"
        rf"(?P<inner>[-−](?=\d))?(?P<amount>{_NUMBER})"
        r"(?P<large>[万亿百千]*)(?:元|块)?",
        _money,
    ),
    _rule(
        rf"(?P<minus>{_MINUS})(?P<number>{_NUMBER})\s?(?:°\s?(?P<scale>[CFcf]?)|℃)", _temperature
    ),
    _rule(
        rf"(?P<minus>{_MINUS})(?P<first>{_NUMBER})(?:{_RANGE}(?P<last>{_NUMBER}))?\s?(?P<unit>{_UNIT})(?![A-Za-z])",
        _unit,
    ),
    _rule(
        rf"{_NO_DIGIT_BEFORE}(?:1[3-9]\d[- ]?\d{{4}}[- ]?\d{{4}}|0\d{{2,3}}-\d{{7,8}}"
        r"|[48]00-\d{3,4}-\d{3,4})(?!\d)",
        lambda found: digits(found[0], telephone=True),
    ),
    _rule(rf"{_NO_DIGIT_BEFORE}(?P<above>\d{{1,3}})/(?P<below>\d{{1,3}})(?![\d/])", _fraction),
    _rule(
        rf"{_NO_DIGIT_BEFORE}(?P<first>{_NUMBER}){_RANGE}(?P<last>{_NUMBER})(?!\s?[=＝])", _range
    ),
    _rule(rf"{_RAISED}\s?\^\s?[({{]?(?P<power>[-−]?(?:\d+|[A-Za-z](?![A-Za-z])))[)}}]?", _power),
    _rule(rf"{_RAISED}(?P<power>⁻?(?:[⁰¹²³⁴-⁹]+|ⁿ))", _power),
    _rule(rf"(?:{_NO_DIGIT_BEFORE}(?P<whole>\d+)\s?)?(?P<sign>[¼-¾⅐-⅞])", _vulgar),
    _rule(r"(?<=[\d)a-z⁰¹²³⁴-⁹ⁿ¼-¾π])\s?(?P<sign>[-+−×*÷/=<>≤≥≈≠])\s?(?=[\d(a-z√π¼-¾])", _sign),
    _rule(r"第\s?(?P<number>\d+)", lambda found: f"第{number(found['number'])}"),
    _rule(rf"(?P<minus>{_MINUS})(?P<number>{_NUMBER})", _plain),
    _rule(r"[A-Za-z]\+\+", lambda found: f" {found[0][0]} 加加"),
)
"""The first one that fits is taken."""
