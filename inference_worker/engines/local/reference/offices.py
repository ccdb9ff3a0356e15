"""Who held an office in a year: the heads of some states and governments.

offices.txt has an office on each line: its names, how an answer calls it, and the year in which each holder
began. Before the first of these years the table knows nothing.
"""

import functools
from pathlib import Path

_TABLE = Path(__file__).with_name("offices.txt")
_LAST_YEAR = 2025
"""Until which the table is complete."""


def holders(office: str, first: int, last: int) -> str | None:
    """Who held `office`, as in "president of france", from the year `first` to `last`."""
    name, begun = _offices().get(office, ("", ()))
    if not begun or not begun[0][0] <= first <= last <= _LAST_YEAR:
        return None
    ends = [year for year, _ in begun[1:]] + [_LAST_YEAR]
    held = [
        who for (year, who), end in zip(begun, ends, strict=True) if year <= last and end >= first
    ]
    when = f"In {first}" if first == last else f"From {first} to {last}"
    return f"{when} {name} was {', and then '.join(held)}."


@functools.cache
def _offices() -> dict[str, tuple[str, tuple[tuple[int, str], ...]]]:
    found: dict[str, tuple[str, tuple[tuple[int, str], ...]]] = {}
    for line in _TABLE.read_text("utf-8").splitlines():
        names, name, begun = line.split(" | ")
        years = tuple(
            (int(year), who) for year, _, who in (one.partition(" ") for one in begun.split("; "))
        )
        found |= dict.fromkeys(names.split(" / "), (name, years))
    return found
