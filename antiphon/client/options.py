"""The options of a connection that every `connect_...` accepts, and checks of what programs pass."""

import inspect
import math
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar

import numpy as np
from pydantic import BaseModel

from antiphon.client.errors import Unauthorized
from antiphon.shared_schemas.audio import PcmFormat

Function = TypeVar("Function", bound=Callable[..., Any])


class ClientOptions(TypedDict, total=False):
    """Connection options that every `connect_...` accepts. Their docstrings repeat these texts for editors."""

    api_key: str | None
    """Key of an edge with API keys."""
    tls: ssl.SSLContext | None
    """Replaces the default checks of the certificate of a `wss://` address."""
    open_timeout_s: float
    """Time to connect, in seconds."""
    binary: bool
    """Send and receive media as bytes instead of base64, if the edge supports it: 25 % less traffic."""
    pcm: PcmFormat | Literal["f32", "s16"]
    """With `binary`: `"s16"` halves the traffic again, and rounds the audio to 16 bits."""
    transcript: bool
    """Ask for the user's words, `user_text` of the results, if the worker recognises them. Not in chat."""
    resume: bool
    """Reconnect to the session after a lost connection, and repeat no message."""
    resume_for_s: float
    """How long to try to reconnect, in seconds."""
    other_edges: Sequence[str]
    """Addresses of further edges to reconnect through."""


_FLAG = (bool, "True or False")
_NUMBERS = (int, float, np.integer, np.floating)
_SECONDS = (_NUMBERS, "a number of seconds")
_OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "api_key": (None, (str, type(None)), "a str"),
    "tls": (None, (ssl.SSLContext, type(None)), "an ssl.SSLContext"),
    "open_timeout_s": (10.0, *_SECONDS),
    "binary": (False, *_FLAG),
    "pcm": (PcmFormat.F32, str, "'f32' or 's16'"),
    "transcript": (False, *_FLAG),
    "resume": (False, *_FLAG),
    "resume_for_s": (15.0, *_SECONDS),
    "other_edges": ((), Sequence, "a list of addresses"),
}
"""By name: the default of an option, its types, and what the error for another type asks for."""


def with_defaults(how: ClientOptions) -> dict[str, Any]:
    """All options."""
    return {name: default for name, (default, _, _) in _OPTIONS.items()} | how


def with_options(function: Function) -> Function:
    """Show the options, which a function takes as `**how`, as parameters in its signature."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for (name, (default, _, _)), kind in zip(
            _OPTIONS.items(), ClientOptions.__annotations__.values(), strict=True
        )
    ]
    shown = signature.replace(parameters=[*own, *options])
    function.__signature__ = shown  # type: ignore[attr-defined]
    return function


def check_options(how: ClientOptions) -> None:
    """Raises TypeError for an option that does not exist or has another type, ValueError for its value."""
    for name, value in how.items():
        if name not in _OPTIONS:
            close = get_close_matches(name, _OPTIONS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
        _, kinds, needed = _OPTIONS[name]
        if not isinstance(value, kinds) or (name == "other_edges" and isinstance(value, str)):
            raise TypeError(f"{name} is a {type(value).__name__}, {needed} is needed")
        if name.endswith("_s"):
            check_seconds(name, value)
    if how.get("pcm", PcmFormat.F32) not in list(PcmFormat):
        raise ValueError(f"pcm is {how['pcm']!r}, 'f32' or 's16' is needed")


def check_seconds(name: str, value: Any) -> None:
    """Raises TypeError unless the value is a number, and ValueError if it is negative or NaN."""
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"{name} is a {type(value).__name__}, a number of seconds is needed")
    if not value >= 0:
        raise ValueError(f"{name} is {value:g}, 0 or more seconds are needed")


def sent_number(name: str, value: Any) -> float:
    """A number as it is sent. Raises TypeError for another type, ValueError for what no server takes."""
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"{name} is a {type(value).__name__}, a number is needed")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}, a number from 0 on is needed")
    return float(value)


def check_key(key: str | None) -> None:
    """Raises Unauthorized for a key that no edge has and no header can carry. Does not show the key."""
    if key and not re.fullmatch("[!-~]+", key):
        raise Unauthorized(
            "the API key has a space, a line break or a letter outside ASCII, which no key has: "
            "copy it again, and remove the end of the line with strip()"
        )


def config_fields(config: Any, kind: type[BaseModel], where: str = "config") -> dict[str, Any]:
    """The settings of a session as they are sent. The server checks their values.

    Raises TypeError for a name that `kind` does not have: the server ignores those.
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
