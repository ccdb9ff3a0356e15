"""Sums in Chinese, in words or signs: 三加五等于多少, 123乘以45, 十二的平方, 200的百分之15."""

import re
import unicodedata

from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import answer_sum

_HAN = "零〇一二两三四五六七八九"
_DIGITS = str.maketrans(_HAN, "001223456789")
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
_PART = re.compile(rf"[\d{_HAN}]+|[十百千万亿]")
_NUMBER = re.compile(rf"((?:[\d{_HAN}十亿]|[百千万](?!分之))+)(?:[.点]([\d{_HAN}]+)([万亿]?))?")

_LEAD = re.compile(r"^(?:请问|请|麻烦|你?帮我|你?知道|那么?|计算|算一?[下算]|算|一下)*")
_ASKS = re.compile(r"(?:等于|是|得|=)*(?:多少|几)?[啊呀呢吗]?[?。=]*$")

_N = r"(\d+(?:\.\d+)?)"
_SIGNS = (
    (rf"负{_N}", r"( -\1 )"),
    (rf"{_N}分之{_N}", r"( \2 / \1 )"),
    (rf"{_N}的(?:百分之{_N}|{_N}%)", r"( \2\3 / 100 ) * \1"),
    (rf"{_N}的平方根|根号{_N}", r"sqrt \1\2"),
    ("的平方", " ^ 2"),
    (rf"的{_N}次方", r" ^ \1"),
    ("加上?", " + "),
    ("减去?", " - "),
    ("除以|÷", " / "),
    ("乘[以上]?|[×x]", " * "),
)
_SAID = str.maketrans({"+": "加", "-": "减", "*": "乘以", "×": "乘以", "/": "除以", "÷": "除以"})
_TELEPHONE = re.compile(r"0\d+-\d+|1\d\d-\d{4}-\d{4}|[48]00-\d+-\d+")
_SUM = re.compile(r"(?:[\d.+*/^() -]|sqrt)+")
_RESULT = re.compile(
    r"(?:is|or) (about )?(minus )?(-?[\d,.]+)(?: times 10 to the power of (\d+))?\.$"
)
"""The end of the answer in English."""


def answer_sum_in_chinese(text: str) -> str | None:
    """The answer to a sum in simplified characters; None if it is no sum."""
    text = re.sub(r"[\s,，]", "", unicodedata.normalize("NFKC", text).lower())
    asked = written = _NUMBER.sub(_in_digits, _ASKS.sub("", _LEAD.sub("", text)))
    for pattern, sign in _SIGNS:
        written = re.sub(pattern, sign, written)
    is_sum = _SUM.fullmatch(written) and not _TELEPHONE.fullmatch(text)
    said = answer_sum(" ".join(written.split())) if is_sum else None
    if not said or not (found := _RESULT.search(said)):
        return "零不能作除数。" if said and "by zero" in said else None
    about, minus, number, power = found.groups("")
    times = f"乘以10的{power}次方" if power else ""
    heard = re.sub(r"(?<![\d)])-", "负", asked).translate(_SAID)
    return f"{heard}{'约' if about else ''}等于{'-' if minus else ''}{number.replace(',', '')}{times}。"


def _in_digits(found: re.Match[str]) -> str:
    """一百零五 as 105, 两百五 as 250, 三点一四 as 3.14, 1.5万 as 15000."""
    total = section = digit = 0
    last = 1
    for part in _PART.findall(found[1]):
        unit = _UNITS.get(part)
        if unit is None:
            # 两百五 leaves out a place at the end.
            short = last // 10 if last > 10 and len(part) == 1 and found[1].endswith(part) else 1
            digit = int(part.translate(_DIGITS)) * short
            continue
        if unit < 10_000:
            section += (digit or 1) * unit
        else:
            above = 0 if unit == 10_000 else total
            total += (section + digit + above or 1) * unit - above
            section = 0
        digit, last = 0, unit
    whole, decimals = total + section + digit, (found[2] or "").translate(_DIGITS)
    if scale := _UNITS.get(found[3] or ""):
        return str(int(f"{whole}{decimals}") * scale // 10 ** len(decimals))
    return f"{whole}.{decimals}" if decimals else str(whole)
