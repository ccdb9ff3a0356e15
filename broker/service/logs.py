"""Structured logs of every process: one pipeline for our lines and those of libraries.

JSON in containers, coloured lines on a terminal. Every line has the service's name and the bound context
variables: `instance` for the whole process, `session` within a session.
"""

import io
import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from antiphon.broker.redis_address import OPEN_LOGIN
from antiphon.broker.settings import CONFIG_STATUS, AntiphonSettings, InvalidSettings
from antiphon.shared_schemas.visible_text import visible, visible_json, visible_line

_SECRET = re.compile(r"(^|_)(password|passwd|secret|token|api_key|authorization|cookie)$")
_IN_TEXT = re.compile(
    rf"(?<=://)(?!{OPEN_LOGIN}@)[^/@\s]+(?=@)"
    r"|(?<=token=)[^&\s\"']+|(?<=key=)[^&\s\"']+"
)
_HIDDEN = "***"
_CAPABILITY = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})[0-9a-f]{24}(?![0-9a-f])")
"""The id of a recording, or of a link to one. Eight characters find a folder, and do not open a recording."""
_KEPT_HEAD, _KEPT_TAIL = 6_000, 2_000
"""Characters that a log line keeps of a longer value: a client may choose how long a value is."""
_PERIOD_S = 60.0
_LINES_PER_PERIOD = 20


class LogSettings(AntiphonSettings):
    """How every process logs, on stderr."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: coloured lines on a terminal, JSON elsewhere"""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """lowest level that is logged"""


def configure_logging(service: str) -> None:
    """Call once, before anything logs. Exits the process when the settings are invalid."""
    try:
        settings = LogSettings()
    except InvalidSettings as error:
        sys.stderr.write(f"antiphon: {error}\n")
        sys.exit(CONFIG_STATUS)
    as_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
    level = logging.getLevelNamesMapping()[settings.log_level]
    renderer = _renderer(as_json=as_json)
    structlog.configure(
        processors=[*_chain(service, as_json=as_json), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _adopt_libraries(_chain(service, as_json=as_json), renderer, level)


def _chain(service: str, *, as_json: bool) -> list[Processor]:
    def name_service(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    return [
        structlog.contextvars.merge_contextvars,
        name_service,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        *((structlog.processors.format_exc_info,) if as_json else ()),
        hide_secrets,
        cut_values,
        *(() if as_json else (show_values,)),
    ]


def _renderer(*, as_json: bool) -> Processor:
    if as_json:
        return structlog.processors.JSONRenderer(serializer=_dumps)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=_print_traceback
    )


def _print_traceback(out: TextIO, error: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    out.write(visible(hide_in_text(text.getvalue())))


def _dumps(event: Any, **_: Any) -> str:
    try:
        return visible_json(orjson.dumps(event, default=repr).decode())
    except TypeError:  # half a surrogate, an integer of more than 64 bits
        return json.dumps(event, default=repr)


def _adopt_libraries(chain: list[Processor], renderer: Processor, level: int) -> None:
    """Send the records of `logging` (uvicorn, asyncio, warnings) through the same pipeline."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*chain, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level if level == logging.DEBUG else max(level, logging.WARNING))
    logging.captureWarnings(capture=True)


def hide_in_text(text: str) -> str:
    """Without the logins and tokens of URLs, and with the beginnings of recording ids."""
    return _CAPABILITY.sub(r"\1", _IN_TEXT.sub(_HIDDEN, text))


def hide_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Remove passwords, tokens, keys and recording ids, as values and inside texts.

    A client chooses the id of its session, which may look like one of a recording and stays.
    """
    for name, value in event.items():
        if name != "session":
            event[name] = _without_secrets(name, value)
    return event


def _without_secrets(name: str, value: Any) -> Any:
    if _SECRET.search(name):
        return _HIDDEN
    if isinstance(value, str | PurePath):
        return hide_in_text(str(value))
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets("", inner) for inner in value]
    return value


def cut_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Shorten long values, tracebacks among them, in the middle."""
    for name, value in event.items():
        if isinstance(value, bool | int | float | None):
            continue
        text = value if isinstance(value, str) else repr(value)
        extra = len(text) - _KEPT_HEAD - _KEPT_TAIL
        if extra > 0:
            event[name] = f"{text[:_KEPT_HEAD]} … {extra} characters … {text[-_KEPT_TAIL:]}"
    return event


def show_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """For a terminal: no text of a client controls it, or pretends to be another line."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible_line(value)
    return event


class LogLimit:
    """At most one line per subject, and a few lines in all, in a minute."""

    def __init__(self) -> None:
        self._since = 0.0
        self._logged: set[str] = set()

    def permits(self, subject: str) -> bool:
        now = time.monotonic()
        if now - self._since > _PERIOD_S:
            self._since = now
            self._logged.clear()
        if subject in self._logged or len(self._logged) >= _LINES_PER_PERIOD:
            return False
        self._logged.add(subject)
        return True
