"""Web and mail addresses, names of files, versions, phone numbers: what is spelled out."""

import re

from antiphon.inference_worker.engines.local.spoken_text.numerals import cardinal, digits, number
from antiphon.inference_worker.engines.local.spoken_text.rule import (
    NEXT_WORD,
    Match,
    ReadingRule,
    before,
    rule,
)

_SEGMENTS = 2
_LONGEST_SEGMENT = 24
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES = {
    ".": " dot ",
    "-": " dash ",
    "_": " underscore ",
    "+": " plus ",
    "@": " at ",
    "/": " slash ",
}


def _spelled(text: str) -> str:
    """`text` with the names of its signs."""
    named = re.sub(r"[.\-_+@/]", lambda found: _NAMES[found[0]], text)
    return _worded(re.sub(r"[^\w ]", " ", named))


def _worded(text: str) -> str:
    """`text` with its numbers in words: long ones, and those with a leading zero, digit by digit."""

    def said(found: Match) -> str:
        long = len(found[0]) > 4 or found[0][0] == "0"
        return f" {digits(found[0]) if long else cardinal(int(found[0]))} "

    return re.sub(r"[0-9]+", said, text.replace("_", " "))


def _url(match: Match) -> str:
    """The host, and the first readable parts of the path. A query is not spoken."""
    port = f" port {number(match['port'])}" if match["port"] else ""
    segments = re.split(r"[?#]", match["path"] or "")[0].strip("/").split("/")[:_SEGMENTS]
    said = _spelled(match["host"]) + port
    for segment in segments:
        if not segment or len(segment) > _LONGEST_SEGMENT or not re.fullmatch(r"[\w.-]+", segment):
            break
        said += f" slash {_spelled(re.sub('[-_]', ' ', segment))}"
    return said


def _email(match: Match) -> str:
    return _spelled(match[0])


def _dotted(match: Match) -> str | None:
    """A host or a file; None for two sentences without a space between them."""
    if re.search(r"[a-z]\.[A-Z]|^\d+\.\d", match[0]) or not re.search(r"[^\W\d_]", match[0]):
        return None
    return _spelled(match[0].replace("-", " ").replace("_", " "))


def _address(match: Match) -> str | None:
    parts = match[0].split(":")[0].split(".")
    if any(int(part) > 255 for part in parts):
        return None
    port = f" port {number(match['port'])}" if match["port"] else ""
    said = [digits(part) if len(part) > 2 else number(part) for part in parts]
    return " dot ".join(said) + port


def _version(match: Match) -> str:
    prefix = "version " if match["v"] and before(match).lower() != "version" else ""
    return prefix + " point ".join(number(part) for part in match["parts"].split("."))


def _path(match: Match) -> str:
    return _spelled(match[0].rstrip("/"))


def _phone(match: Match) -> str | None:
    """Digit by digit; None for a range of round numbers."""
    first, _, last = match[0].rpartition("-")
    if match["short"] and first[-1] == last[-1] == "0" and last.endswith("00"):
        return None
    plus = "plus " if match[0].startswith("+") else ""
    return plus + _grouped(re.findall(r"\d+| ", match[0]))


def _grouped(groups: list[str]) -> str:
    """A pause between groups, and each in the shown word that contains it."""
    said = ""
    for group in groups:
        if group == " ":
            said += NEXT_WORD
        else:
            said += f"{', ' if said and not said.endswith(NEXT_WORD) else ''}{digits(group)}"
    return said.replace(NEXT_WORD, f",{NEXT_WORD}")


def _row_of_digits(match: Match) -> str:
    return _grouped(re.findall(r"\d+", match[0]))


def _dialled(match: Match) -> str | None:
    return digits(match[0]) if before(match).lower() in ("call", "dial", "press", "text") else None


def _handle(match: Match) -> str:
    return f"at {_worded(_CAMEL.sub(' ', match['name']))}"


def _tag(match: Match) -> str:
    name = match["name"]
    if name.isdecimal():
        return f"number {number(name)}"
    return f"hashtag {_worded(_CAMEL.sub(' ', name))}"


RULES: tuple[ReadingRule, ...] = (
    rule(
        r"(?:(?i:(?:https?|ftp|wss?)://(?:www\.)?|www\.)|(?<![\w.@])(?=[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}[:/][\w]))"
        r"(?P<host>[\w.-]*\w)(?::(?P<port>\d{1,5}))?"
        r"(?P<path>[/?#][^\s<>\"]*?)?(?=[.,;:!?')\]]*(?:[\s<>\"]|$))",
        _url,
    ),
    rule(r"(?<![\w.+-])[\w.+-]*\w@\w[\w-]*(?:\.[\w-]*\w)+", _email),
    rule(r"(?<!\w)@(?P<name>\w+)", _handle),
    rule(r"(?<![\w&])#(?P<name>\w+)", _tag),
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::(?P<port>\d{1,5}))?(?![\w.]*\d)", _address),
    rule(
        r"(?<![\w.])(?P<v>[vV])?(?P<parts>\d{1,6}(?:\.\d{1,6}){2,}(?!\d)|(?<=[vV])\d{1,6}(?:\.\d{1,6})*)\b",
        _version,
    ),
    rule(
        r"(?<![\w.-])(?:\+\d{1,3}(?:[ .-]?\(?\d{2,4}\)?){2,5}|(?:1-)?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}"
        r"|(?P<short>\d{3}-\d{4})|0\d{2,5}[ /-]\d{3,8}(?: \d{2,6})*)(?![\w-]*\d)",
        _phone,
    ),
    rule(r"(?<![\w-])\d{1,7}(?:-\d{1,7}){3,}(?![\w-])", _row_of_digits),
    rule(r"(?<![\w.,])\d{3,}(?![.,]?\w)", _dialled),
    rule(r"(?<![\w.])(?=[\w-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{20,}", "a long code"),
    rule(r"(?<![\w./~])~?\.{0,2}/(?:[A-Za-z][\w.-]*/?)+(?<![.])", _path),
    rule(r"(?<![\w.])[^\W_][\w-]*(?:\.[^\W_][\w-]*)+", _dotted),
)
