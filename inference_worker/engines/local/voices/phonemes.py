"""Text as the symbols that Kokoro reads: phonemes of eSpeak NG, written in the alphabet of the network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from antiphon.inference_worker.engines.local.voices.catalogue import Accent
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

_ESPEAK_VOICES: Mapping[Accent, str] = {"en-US": "en-us", "en-GB": "en"}

_BOTH = {
    "a^ɪ": "I", "a^ʊ": "W", "e^ɪ": "A", "ɔ^ɪ": "Y", "d^ʒ": "ʤ", "t^ʃ": "ʧ", "ə^l": "ᵊl",
    "ʔn": "tᵊn", "ʔˌn\u0329": "tᵊn", "ʔ": "t", "n\u0329": "ᵊn", "r": "ɹ", "x": "k", "ç": "k",
    "ɐ": "ə", "ɬ": "l", "ʲ": "", "\u0303": "", PHONEME_TIE: "",
}  # fmt: skip
_REWRITES: Mapping[Accent, Mapping[str, str]] = {
    "en-US": _BOTH
    | {"o^ʊ": "O", "e": "A", "ɚ": "əɹ", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "ɾ": "T", "ː": ""},
    "en-GB": _BOTH | {"ə^ʊ": "Q", "e^ə": "ɛː", "i^ə": "ɪə", "ɪ^ə": "ɪə", "ɾ": "t", "ɚ": "ə"},
}
"""eSpeak's phonemes in the network's alphabet. Longer ones are replaced first."""

_PATTERNS: Mapping[Accent, re.Pattern[str]] = {
    accent: re.compile("|".join(map(re.escape, sorted(rewrites, key=len, reverse=True))))
    for accent, rewrites in _REWRITES.items()
}

_MOST_JOINED = 3

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


def symbols_of(spoken: Sequence[str], accent: Accent) -> Symbols:
    """The symbols of what is said for each shown word: several words, one or none.

    A shown word for which nothing is said begins with the next one.
    """
    words = [word for said in spoken for word in said.split()]
    text = _phrase(" ".join(words), accent)
    alone = [_phrase(word, accent) for word in words]
    starts = _word_starts(text.split(" "), alone)
    firsts = accumulate((len(said.split()) for said in spoken[:-1]), initial=0)
    last = starts[-1] if starts else 0
    return Symbols(
        text, tuple(starts[at] if at < len(starts) else last for at in firsts)[: len(spoken)]
    )


def _word_starts(groups: list[str], alone: list[str]) -> list[int]:
    """Where each word begins in the text that consists of `groups` with a space between them.

    `alone` has the symbols that each word has on its own. eSpeak splits numbers into several groups, and
    joins short words to one ("of the"): this one has about the length of those words together.
    """
    starts: list[int] = []
    at = word = group = 0
    while word < len(alone) and group < len(groups):
        split = alone[word].count(" ") + 1
        joined = 1 if split > 1 else _joined_words(groups[group], alone[word : word + _MOST_JOINED])
        inside = 0
        for one in alone[word : word + joined]:
            starts.append(at + min(inside, len(groups[group]) - 1))
            inside += _sounds(one)
        taken = groups[group : group + split]
        at += sum(len(symbols) + 1 for symbols in taken)
        word += joined
        group += split
    last = starts[-1] if starts else 0
    return starts + [last] * (len(alone) - len(starts))


def _joined_words(group: str, alone: list[str]) -> int:
    """How many of the words `alone` are in `group`: the number whose lengths fit best."""
    lengths = accumulate(_sounds(one) for one in alone if " " not in one)
    fits = [abs(_sounds(group) - length) for length in lengths]
    return fits.index(min(fits)) + 1 if fits else 1


def _sounds(symbols: str) -> int:
    """Their number without marks of stress: a word has other ones alone than in a sentence."""
    return sum(symbol not in "ˈˌ" for symbol in symbols)


def _phrase(text: str, accent: Accent) -> str:
    """The symbols of `text`. Marks are kept, because they shape the melody."""
    parts: list[str] = []
    spoken = _MARKS_INSIDE_WORDS.sub(" ", text.translate(_TYPOGRAPHY))
    for piece in _PIECES.findall(spoken):
        if piece[0] in _MARKS:
            parts.append(piece)
            continue
        before, after = piece[:1].isspace(), piece[-1:].isspace()
        ipa = espeak().phonemes(piece.strip(), _ESPEAK_VOICES[accent]).strip()
        parts.append(f"{' ' * before}{_rewritten(ipa, accent)}{' ' * after}")
    known = "".join(symbol for symbol in "".join(parts) if symbol in SYMBOL_IDS)
    return " ".join(known.split())


def _rewritten(ipa: str, accent: Accent) -> str:
    rewrites = _REWRITES[accent]
    return _PATTERNS[accent].sub(lambda found: rewrites[found[0]], ipa)
