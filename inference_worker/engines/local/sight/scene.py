"""What a picture shows, in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from antiphon.inference_worker.engines.local.reference.words import plural

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNCOUNTABLE = frozenset(
    {"espresso", "guacamole", "consomme", "toilet paper", "corn", "mashed potato"}
)
_POINTING = frozenset(
    [
        "this",
        "that",
        "these",
        "those",
        "it",
        "here",
        "there",
        "see",
        "saw",
        "look",
        "looks",
        "show",
        "shown",
        "picture",
        "photo",
        "image",
        "camera",
        "video",
        "hold",
        "holding",
        "wear",
        "wearing",
        "color",
        "colour",
        "read",
        "text",
        "sign",
        "written",
        "front",
        "behind",
        "background",
        "left",
        "right",
        "he",
        "she",
        "they",
        "him",
        "her",
        "them",
        "someone",
        "thing",
        "things",
        "object",
        "objects",
        "number",
        "word",
        "letter",
        "page",
        "screen",
    ]
)
_SHORT_WORD = 2
_MOST_KINDS = 6
_MOST_TEXT = 160


@dataclass(frozen=True, slots=True)
class Thing:
    """One object. `colour` is empty if it has no main colour."""

    name: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of one picture.

    `things`: the objects, the largest first. `kind`: what fills the picture, if that is certain. `text`:
    its lines. `ground` and `subject`: the colour around, and the most frequent other one. `dark`: almost
    nothing is lit.
    """

    things: tuple[Thing, ...] = ()
    kind: str = ""
    text: tuple[str, ...] = ()
    ground: str = ""
    subject: str = ""
    dark: bool = False

    def sentence(self, lead: str) -> str:
        """`lead` is such as "I see" or "The picture shows"."""
        parts = [f"{lead} {self._content()}."]
        if self.text and self.objects:
            parts.append(f"The text says: {quoted(self.text)}.")
        return " ".join(parts)

    def concerns(self, question: str) -> bool:
        """Whether a question may be about the picture: it points at something, or names a part of it."""
        words = set(re.findall(r"[a-z0-9]+", question.lower()))
        shown = f"{self.objects} {self.colours} {' '.join(self.text)}".lower()
        named = {word for word in re.findall(r"[a-z0-9]+", shown) if len(word) > _SHORT_WORD}
        return bool(words & (_POINTING | named | {plural(word) for word in named}))

    @property
    def objects(self) -> str:
        """Such as "a person and two cups"; empty if nothing was recognised."""
        phrases = counted(self.things)
        if self.kind and not any(thing.name == self.kind for thing in self.things):
            kind = with_article(self.kind)
            return f"{joined(phrases)}, probably {kind}" if phrases else kind
        return joined(phrases)

    @property
    def colours(self) -> str:
        """Such as "red on white"."""
        if self.dark:
            return "black"
        return f"{self.subject} on {self.ground}" if self.subject else self.ground

    def count(self, name: str) -> int:
        seen = sum(thing.name == name for thing in self.things)
        return seen or int(self.kind == name)

    @property
    def named(self) -> Scene:
        """The same with its kind as one of the things."""
        known = not self.kind or any(thing.name == self.kind for thing in self.things)
        things = self.things if known else (*self.things, Thing(self.kind))
        return replace(self, things=things, kind="")

    def joined_with(self, other: Scene) -> Scene:
        """What two pictures show together."""
        return replace(
            other,
            things=(*self.named.things, *other.named.things),
            kind="",
            text=(*self.text, *other.text),
            dark=self.dark and other.dark,
        )

    def merged_with(self, later: Scene) -> Scene:
        """What two frames of one video show together: what is in both counts once."""
        things, known = list(self.named.things), _counts(self.named.things)
        for thing in later.named.things:
            if known[thing.name]:
                known[thing.name] -= 1
            else:
                things.append(thing)
        text = tuple(dict.fromkeys((*self.text, *later.text)))
        dark = self.dark and later.dark
        return replace(later, things=tuple(things), kind="", text=text, dark=dark)

    def new_since(self, before: Scene) -> str:
        """What has come and gone, as a sentence; empty if nothing has."""
        now, then = _counts(self.things), _counts(before.things)
        came, went = counted_names(now - then), counted_names(then - now)
        parts = []
        if came:
            parts.append(f"{joined(came)} appeared")
        if went:
            parts.append(f"{joined(went)} disappeared")
        if self.text != before.text and self.text:
            parts.append(f"the text now says: {quoted(self.text)}")
        sentence = ", and ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

    def _content(self) -> str:
        if self.objects:
            return self.objects
        if self.text:
            return f"the text: {quoted(self.text)}"
        if self.dark:
            return "nothing, because it is dark"
        if self.subject:
            return f"{self.colours}, and nothing that I recognise"
        return f"only {self.ground}, and nothing that I recognise"


def counted(things: Iterable[Thing]) -> list[str]:
    """Phrases such as "two cups" and "a red car"."""
    things = list(things)
    names = list(dict.fromkeys(thing.name for thing in things))[:_MOST_KINDS]
    phrases = []
    for name in names:
        same = [thing for thing in things if thing.name == name]
        if len(same) > 1 and name not in _UNCOUNTABLE:
            phrases.append(f"{number(len(same))} {plural(name)}")
        else:
            phrases.append(with_article(f"{same[0].colour} {name}".strip()))
    return phrases


def counted_names(counts: Counter[str]) -> list[str]:
    return counted(Thing(name) for name, times in counts.items() for _ in range(times))


def joined(phrases: Sequence[str]) -> str:
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def with_article(name: str) -> str:
    if name in _UNCOUNTABLE or name.endswith(("sunglasses", "jeans")):
        return name
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def quoted(lines: Sequence[str]) -> str:
    """The lines as one text, without marks that could end a quotation."""
    text = " ".join(lines).replace('"', "").replace("\n", " ")
    if len(text) > _MOST_TEXT:
        text = text[:_MOST_TEXT].rpartition(" ")[0] + " and more"
    return text.rstrip(".")


def _counts(things: Iterable[Thing]) -> Counter[str]:
    return Counter(thing.name for thing in things)
