"""Text as the symbols that Kokoro reads: phonemes of eSpeak NG, written in the alphabet of the network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from antiphon.inference_worker.engines.local.voices.espeak import PHONEME_TIE, espeak

SYMBOL_IDS: Mapping[str, int] = {
    symbol: int(number)
    for symbol, number in re.findall(
        r"(\D)(\d+)",
        ';1:2,3.4!5?6—9…10"11(12)13“14”15 16\u030317ʣ18ʥ19ʦ20ʨ21ᵝ22ꭧ23A24I25O31Q33S35T36W39Y41ᵊ42a43b44c45'
        "d46e47f48h50i51j52k53l54m55n56o57p58q59r60s61t62u63v64w65x66y67z68ɑ69ɐ70ɒ71æ72β75ɔ76ɕ77ç78ɖ80ð81"
        "ʤ82ə83ɚ85ɛ86ɜ87ɟ90ɡ92ɥ99ɨ101ɪ102ʝ103ɯ110ɰ111ŋ112ɳ113ɲ114ɴ115ø116ɸ118θ119œ120ɹ123ɾ125ɻ126ʁ128ɽ129"
        "ʂ130ʃ131ʈ132ʧ133ʊ135ʋ136ʌ138ɣ139ɤ140χ142ʎ143ʒ147ʔ148ˈ156ˌ157ː158ʰ162ʲ164↓169→171↗172↘173ᵻ177",
    )
}
"""The network's vocabulary. Id 0 pads both ends."""

EnglishAccent = Literal["en-US", "en-GB"]

_ESPEAK_VOICES: Mapping[EnglishAccent, str] = {"en-US": "en-us", "en-GB": "en"}

_BOTH = {
    "a^ɪ": "I", "a^ʊ": "W", "e^ɪ": "A", "ɔ^ɪ": "Y", "d^ʒ": "ʤ", "t^ʃ": "ʧ", "ə^l": "ᵊl",
    "ʔn": "tᵊn", "ʔˌn\u0329": "tᵊn", "ʔ": "t", "n\u0329": "ᵊn", "r": "ɹ", "x": "k", "ç": "k",
    "ɐ": "ə", "ɬ": "l", "ʲ": "", "\u0303": "", PHONEME_TIE: "",
}  # fmt: skip
_REWRITES: Mapping[EnglishAccent, Mapping[str, str]] = {
    "en-US": _BOTH
    | {
        "o^ʊ": "O",
        "e": "A",
        "ɚ": "əɹ",
        "ɚɹ": "əɹ",
        "ɜːɹ": "ɜɹ",
        "ɜː": "ɜɹ",
        "ɪə": "iə",
        "ɾ": "T",
        "ː": "",
    },
    "en-GB": _BOTH | {"ə^ʊ": "Q", "e^ə": "ɛː", "i^ə": "ɪə", "ɪ^ə": "ɪə", "ɾ": "t", "ɚ": "ə"},
}
"""eSpeak's phonemes in the network's alphabet. Longer ones are replaced first."""

_PATTERNS: Mapping[EnglishAccent, re.Pattern[str]] = {
    accent: re.compile("|".join(map(re.escape, sorted(rewrites, key=len, reverse=True))))
    for accent, rewrites in _REWRITES.items()
}

_WEAK = {"ɐ": "ɐ", "ɐn": "ɐn", "ɐm": "ɐm"} | {
    f"a^ɪ{rest}": f"ˌI{rest}" for rest in ("", "m", "l", "v", "d")
}
_WEAK_WORDS: Mapping[EnglishAccent, Mapping[str, str]] = {
    "en-US": _WEAK | {"hɐz": "hæz"},
    "en-GB": _WEAK | {"hɐz": "haz"},
}
"""A, an, am, has, I, I'm, I'll, I've and I'd, as in the speech that the network learned from."""

_WORD_BREAK = " \u200b"
"""Without the zero-width space, eSpeak joins short words ("of the" to ʌvðə), which the network never read."""

_STOP_BEFORE_Y = re.compile("(?<=[AIOWYiuɑɐɔəɛɜɪʊʌæ])t(?= [ˈˌ]?j)")
"""The t of "what year". The network swallows it and the y, unless it is a glottal stop, as Americans say it."""
_CLEAR_Y = (("wˌʌʔ", "wʌʔ"), ("jˈɪɹ", "jˈiɹ"))
"""The y of "what year" is longer after an unstressed word and before a longer vowel."""

_MARKS = ';:,.!?—…"()“”'
_PIECES = re.compile(rf"[{re.escape(_MARKS)}]+|[^{re.escape(_MARKS)}]+")
_MARKS_INSIDE_WORDS = re.compile(r"(?<=\w)[.:,;](?=\w)")
_TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "–": "—", "\u00a0": " "})


@dataclass(frozen=True, slots=True)
class Symbols:
    """A text in the network's alphabet, and the index at which each word begins, ascending."""

    text: str
    starts: tuple[int, ...]

    @property
    def ids(self) -> list[int]:
        return [SYMBOL_IDS[symbol] for symbol in self.text]


def symbols_of(spoken: Sequence[str], accent: EnglishAccent) -> Symbols:
    """The symbols of what is said for each shown word: several words, one or none.

    A shown word for which nothing is said begins with the next one.
    """
    words = [word for said in spoken for word in said.split()]
    text = phrase_symbols(" ".join(words), accent)
    alone = [phrase_symbols(word, accent) for word in words]
    starts = _word_starts(text.split(" "), alone)
    firsts = accumulate((len(said.split()) for said in spoken[:-1]), initial=0)
    last = starts[-1] if starts else 0
    return Symbols(
        text, tuple(starts[at] if at < len(starts) else last for at in firsts)[: len(spoken)]
    )


def _word_starts(groups: list[str], alone: list[str]) -> list[int]:
    """Where each word begins in the text that consists of `groups` with a space between them.

    `alone` has the symbols that each word has on its own: one group, several ("48") or none.
    """
    starts: list[int] = []
    at = group = 0
    for one in alone:
        starts.append(at)
        following = group + len(one.split())
        at += sum(len(symbols) + 1 for symbols in groups[group:following])
        group = following
    return starts


def phrase_symbols(text: str, accent: EnglishAccent) -> str:
    """The symbols of `text`. Marks are kept, because they shape the melody."""
    parts: list[str] = []
    spoken = _MARKS_INSIDE_WORDS.sub(" ", text.translate(_TYPOGRAPHY))
    for piece in _PIECES.findall(spoken):
        if piece[0] in _MARKS:
            parts.append(piece)
            continue
        before, after = piece[:1].isspace(), piece[-1:].isspace()
        words = piece.strip().replace(" ", _WORD_BREAK)
        ipa = espeak().phonemes(words, _ESPEAK_VOICES[accent]).strip()
        parts.append(f"{' ' * before}{_rewritten(ipa, accent)}{' ' * after}")
    known = "".join(symbol for symbol in "".join(parts) if symbol in SYMBOL_IDS)
    return " ".join(known.split())


def _rewritten(ipa: str, accent: EnglishAccent) -> str:
    text = " ".join(_rewritten_word(word, accent) for word in ipa.split(" "))
    if accent == "en-US":
        text = _STOP_BEFORE_Y.sub("ʔ", text)
        for symbols, clearer in _CLEAR_Y:
            text = text.replace(symbols, clearer)
    return text


def _rewritten_word(ipa: str, accent: EnglishAccent) -> str:
    if weak := _WEAK_WORDS[accent].get(ipa):
        return weak
    rewrites = _REWRITES[accent]
    symbols = _PATTERNS[accent].sub(lambda found: rewrites[found[0]], ipa)
    # A flap at the end belongs to the next word, which the network does not expect.
    return f"{symbols[:-1]}t" if symbols.endswith("T") else symbols
