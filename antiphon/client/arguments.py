"""Checks of what programs pass to the client. Each error names the argument and what is needed instead."""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from antiphon.shared_schemas.wire import MediaBytes, to_text

NUMBERS = (int, float, np.integer, np.floating)

_DEEPEST = 100
"""Levels of lists and dicts in one another. The encoder of JSON takes some more."""

_INSTEAD = {
    Path: "its content is needed: read_bytes() for media, read_text() for text",
    np.ndarray: "its bytes are needed: tobytes()",
    bytearray: "bytes are needed: bytes(value)",
    memoryview: "bytes are needed: bytes(value)",
    set: "a list is needed: list(value)",
    frozenset: "a list is needed: list(value)",
    Mapping: "a dict is needed: dict(value)",
    int: "JSON has whole numbers of at most 64 bits",
    str: "it has half of a surrogate pair, which no UTF-8 has: value.encode(errors='replace').decode()",
}
"""What to send in place of a value of each type that is no JSON."""


def check_seconds(name: str, value: Any) -> None:
    """Raises TypeError unless the value is a number, and ValueError if it is negative or NaN."""
    if not isinstance(value, NUMBERS):
        raise TypeError(f"{name} is a {type(value).__name__}, a number of seconds is needed")
    if not value >= 0:
        raise ValueError(f"{name} is {value:g}, 0 or more seconds are needed")


def sent_number(name: str, value: Any) -> float:
    """A number as it is sent. Raises TypeError for another type, ValueError for what no server takes."""
    if not isinstance(value, NUMBERS):
        raise TypeError(f"{name} is a {type(value).__name__}, a number is needed")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}, a number from 0 on is needed")
    return float(value)


def check_text(name: str, value: Any) -> None:
    """Raises TypeError unless the value is a str: bytes would become base64."""
    if not isinstance(value, str):
        remedy = ": read_text() reads a file" if isinstance(value, Path) else ""
        raise TypeError(f"{name} is a {type(value).__name__}, a str is needed{remedy}")


def sent_text(name: str, value: Any) -> str:
    """A text as it is sent. Raises TypeError, also for half of a surrogate pair."""
    check_text(name, value)
    check_json(name, value)
    return str(value)


def check_function(name: str, value: Any) -> None:
    """Raises TypeError now, instead of when the function is called."""
    if not callable(value):
        raise TypeError(f"{name} is a {type(value).__name__}, a function is needed")


def check_json(where: str, value: Any) -> None:
    """Raises TypeError unless the value can be in a message, which is JSON with `bytes` as media."""
    _check_json(where, value, _DEEPEST)


def _check_json(where: str, value: Any, levels: int) -> None:
    if levels == 0:
        argument = re.split(r"[.\[]", where)[0]
        raise TypeError(f"{argument} is nested more than {_DEEPEST} levels deep")
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{where} has the key {name!r}, keys must be str")
            _check_json(f"a key of {where}", name, levels)
            _check_json(f"{where}.{name}", part, levels - 1)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            _check_json(f"{where}[{number}]", part, levels - 1)
    elif not _is_plain(value):
        try:
            to_text({"value": value})
        except TypeError:
            part = value.data if isinstance(value, MediaBytes) else value
            instead = next((text for kind, text in _INSTEAD.items() if isinstance(part, kind)), "")
            remedy = instead or "a value of JSON, or bytes, are needed"
            raise TypeError(f"{where} is a {type(part).__name__}, {remedy}") from None


def _is_plain(value: Any) -> bool:
    """Media and long texts, without a copy of them."""
    data = value.data if isinstance(value, MediaBytes) else value
    return isinstance(data, bytes) or (isinstance(data, str) and data.isascii())


def config_fields(config: Any, kind: type[BaseModel], where: str = "config") -> dict[str, Any]:
    """The settings of a session as they are sent. The server checks their values.

    Raises TypeError for a name that `kind` does not have, which the server ignores, and for what is no JSON.
    """
    if config is None or isinstance(config, BaseModel):
        return (config or kind()).model_dump()
    if not isinstance(config, Mapping):
        text = f"{where} is a {type(config).__name__}, a mapping of settings is needed"
        raise TypeError(f'{text}, such as {{"{next(iter(kind.model_fields))}": …}}')
    for name, value in config.items():
        if name not in kind.model_fields:
            close = get_close_matches(str(name), kind.model_fields, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{where} has no setting {name!r}{hint}")
        inner = kind.model_fields[name].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            config_fields(value, inner, f"{where}.{name}")
        else:
            check_json(f"{where}.{name}", value)
    return dict(config)


def names_setting(config: BaseModel | Mapping[str, Any] | None, setting: str) -> bool:
    """Whether the caller has chosen the setting."""
    return setting in (config.model_fields_set if isinstance(config, BaseModel) else config or ())


def check_frames(frames: Any) -> list[bytes]:
    """The same pictures. Raises TypeError unless they are a list or a tuple of bytes."""
    if not isinstance(frames, list | tuple):
        raise TypeError(f"frames is a {type(frames).__name__}, a list of JPEG files is needed")
    for number, frame in enumerate(frames):
        if not isinstance(frame, bytes):
            kind = type(frame).__name__
            raise TypeError(
                f"frames[{number}] is a {kind}, the bytes of a JPEG file are needed: "
                'Path("photo.jpg").read_bytes()'
            )
    return list(frames)
