"""The options of a connection that every `connect_...` accepts, and their checks."""

import inspect
import re
import ssl
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar

from antiphon.client.arguments import NUMBERS, check_seconds
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
_SECONDS = (NUMBERS, "a number of seconds")
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


def check_key(key: str | None) -> None:
    """Raises Unauthorized for a key that no edge has and no header can carry. Does not show the key."""
    if key and not re.fullmatch("[!-~]+", key):
        raise Unauthorized(
            "the API key has a space, a line break or a letter outside ASCII, which no key has: "
            "copy it again, and remove the end of the line with strip()"
        )
