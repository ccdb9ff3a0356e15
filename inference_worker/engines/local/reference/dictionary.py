"""Definitions, synonyms and opposites of 120,000 English words and names, from WordNet 3.1.

`tools/dictionary.py` makes the file. A line has a word, a kind, the word as it is written, and a text.
"""

import functools
import lzma
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from antiphon.inference_worker.engines.types import EngineLoadError

_FILE = Path(__file__).with_name("dictionary.xz")


class EntryKind(StrEnum):
    """What a word means, or what its text is. The values are those of the file."""

    THING = "c"
    NATURAL = "t"
    """A thing in nature or a part of the body, of which people speak with "the": the heart."""
    PERSON = "p"
    PLACE = "l"
    NAMED = "o"
    """Another thing with a name: an event, a building, an organisation."""
    ACTION = "v"
    QUALITY = "m"
    SYNONYMS = "s"
    OPPOSITE = "x"


@dataclass(frozen=True, slots=True)
class DictionaryEntry:
    """`form`: the word as it is written. `text`: a definition without examples, or words with commas."""

    form: str
    text: str
    born: str = ""
    died: str = ""


class Dictionary:
    """Keeps the lines in one piece of 15 MB: as objects they would take ten times as much."""

    def __init__(self, lines: bytes) -> None:
        """`lines` are in the order of their bytes and end with a newline."""
        self._lines = lines

    def find(self, word: str) -> dict[EntryKind, DictionaryEntry]:
        """All entries of `word`, which is in lower case."""
        start = word.encode() + b"\t"
        at = self._place_of(start)
        found = {}
        while self._lines.startswith(start, at):
            end = self._lines.index(b"\n", at)
            _, kind, form, text = self._lines[at:end].decode().split("\t")
            text, *years = text.split("|")
            found[EntryKind(kind)] = DictionaryEntry(form, text, *years)
            at = end + 1
        return found

    def _place_of(self, start: bytes) -> int:
        """Where the first line is that does not come before `start`."""
        low, high = 0, len(self._lines)
        while low < high:
            line = self._lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._lines.index(b"\n", line)
            if self._lines[line : line + len(start)] < start:
                low = end + 1
            else:
                high = line
        return low


@functools.cache
def dictionary() -> Dictionary:
    """The one of this process. Raises EngineLoadError if its file cannot be read."""
    try:
        return Dictionary(lzma.decompress(_FILE.read_bytes()))
    except (OSError, lzma.LZMAError) as error:
        raise EngineLoadError(f"the dictionary cannot be read: {error}") from error
