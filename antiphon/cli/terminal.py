"""The only place that prints: text of clients never controls a terminal.

`Terminal` and `echo` replace what is not shown, `echo_json` escapes it, also where the output is no terminal.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from antiphon.shared_schemas.visible_text import visible, visible_json


class Terminal(Console):
    """A console that takes no string as markup, and shows no control characters but its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Everything that is printed passes here, also cells of tables and frames of live views."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=visible(segment.text))


def echo(text: str = "", *, err: bool = False, **style: Any) -> None:
    """Print a text and a newline; `style` as in `typer.secho`."""
    typer.secho(visible(text), err=err, **style)


def echo_json(document: Any, *, indent: bool = False) -> None:
    """Print JSON: a bytes object that is JSON already, or anything that orjson takes."""
    if not isinstance(document, bytes):
        try:
            document = orjson.dumps(document, option=orjson.OPT_INDENT_2 if indent else None)
        except TypeError:  # the name of a file that is not UTF-8
            document = json.dumps(document, indent=2 if indent else None).encode()
    typer.echo(visible_json(document.decode()))


class StreamedText:
    """A text that is printed piece by piece."""

    _TAIL = 64
    """Characters that decide how those of the next piece are shown, such as a stack of accents."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, piece: str) -> None:
        before = self.text[-self._TAIL :]
        self.text += piece
        typer.echo(visible(before + piece)[len(visible(before)) :], nl=False)


def read_line(prompt: str) -> str | None:
    """A line that the user types, with the keys of an editor; None at the end of the input."""
    with suppress(ImportError):  # not on Windows
        import readline  # noqa: F401

    try:
        return input(prompt)
    except EOFError:
        echo()
        return None
