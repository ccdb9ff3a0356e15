"""Chinese text as the symbols that Kokoro reads: pinyin, written in the alphabet of the network."""

import functools
import re
from collections.abc import Iterator, Sequence

from antiphon.inference_worker.engines.local.chinese.script import HAN
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.voices.phonemes import (
    SYMBOL_IDS,
    Symbols,
    phrase_symbols,
)

_INITIALS = {
    "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l", "g": "k", "k": "kʰ",
    "h": "x", "j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "ꭧ", "ch": "ꭧʰ", "sh": "ʂ", "r": "ɻ", "z": "ʦ", "c": "ʦʰ",
    "s": "s",
}  # fmt: skip
_FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0", "en": "ə0n",
    "eng": "ə0ŋ", "i": "i0", "ia": "ja0", "ian": "jɛ0n", "iang": "ja0ŋ", "iao": "jau0", "ie": "je0",
    "in": "i0n", "iou": "jou0", "ing": "i0ŋ", "iong": "jʊ0ŋ", "ong": "ʊ0ŋ", "ou": "ou0", "u": "u0",
    "uei": "wei0", "ua": "wa0", "uai": "wai0", "uan": "wa0n", "uen": "wə0n", "uang": "wa0ŋ", "ueng": "wə0ŋ",
    "uo": "wo0", "o": "wo0", "ü": "y0", "üe": "ɥe0", "üan": "ɥɛ0n", "ün": "y0n",
}  # fmt: skip
"""The tone replaces 0."""
_WHOLE = {
    "er": "ɚ0",
    "o": "ɔ0",
    "io": "jɔ0",
    "m": "m0",
    "n": "n0",
    "ng": "ŋ0",
    "hm": "hm0",
    "hng": "hŋ0",
}
"""Syllables that are no initial with a final."""
_BUZZING = "ɨ0"
"""The vowel of `zi`, `ci`, `si`, `zhi`, `chi`, `shi` and `ri`."""
_BUZZ_AFTER = frozenset(("z", "c", "s", "zh", "ch", "sh", "r"))
_TONES = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}

_MARKS = str.maketrans({
    "，": ",", "、": ",", "。": ".", "！": "!", "？": "?", "：": ":", "；": ";", "（": "(", "）": ")",
    "《": "“", "》": "”", "～": "—",
})  # fmt: skip
_PARTS = re.compile(
    rf"[{HAN}]+|[A-Za-z\u00c0-\u024f'’ .-]*[A-Za-z\u00c0-\u024f][A-Za-z\u00c0-\u024f'’-]*|.",
    re.DOTALL,
)


def symbols_of(spoken: Sequence[str]) -> Symbols:
    """The symbols of what is said for each shown word: Chinese characters, marks and English words."""
    text = "".join(spoken)
    symbols, places = "", list[int]()
    """`places` has the index in `symbols` at which each character of `text` begins."""
    for part in _PARTS.findall(text):
        for said, count in _read(part):
            gap = " " if said.startswith(" ") and not symbols.endswith(" ") and symbols else ""
            places += [len(symbols) + len(gap)] * count
            symbols += gap + said.strip()
    ends = max(0, len(symbols) - 1)
    begins, at = [], 0
    for said in spoken:
        begins.append(min(places[at], ends) if at < len(places) else ends)
        at += len(said)
    return Symbols(symbols, tuple(begins))


def _read(part: str) -> Iterator[tuple[str, int]]:
    """Pieces of symbols, each for a number of characters. A piece with a space in front begins a word."""
    if re.match(f"[{HAN}]", part):
        for word in _words(part):
            for place, syllable in enumerate(_syllables(word)):
                yield f"{' ' * (place == 0)}{_symbols_of_syllable(syllable)}", 1
    elif re.search(r"[^\W\d_]", part):
        yield f" {phrase_symbols(part.strip(), 'en-US')}", len(part)
    else:
        mark = part.translate(_MARKS)
        yield mark if mark in SYMBOL_IDS else "", len(part)


def _words(text: str) -> list[str]:
    return list(import_library("pypinyin.seg.mmseg").seg.cut(text))


def _syllables(word: str) -> list[str]:
    """The pinyin of each character with the number of its tone."""
    pypinyin = import_library("pypinyin")
    found = pypinyin.lazy_pinyin(
        word,
        style=pypinyin.Style.TONE3,
        neutral_tone_with_five=True,
        errors=lambda rest: list(rest),
    )
    return [str(one) for one in found]


@functools.lru_cache(maxsize=2048)
def _symbols_of_syllable(syllable: str) -> str:
    """Nothing for a character that has no pinyin."""
    convert = import_library("pypinyin.contrib.tone_convert")
    plain, tone = syllable[:-1], _TONES.get(syllable[-1:])
    if tone is None or not plain.isascii():
        return ""
    if plain in _WHOLE:
        return _WHOLE[plain].replace("0", tone)
    initial, final = convert.to_initials(plain), convert.to_finals(plain, v_to_u=True)
    buzzes = final == "i" and initial in _BUZZ_AFTER
    written = _BUZZING if buzzes else _FINALS.get(final, "")
    return f"{_INITIALS.get(initial, '')}{written}".replace("0", tone)
