"""What a client asks for on its URL, beyond the documents: nothing unless it does."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import QueryParams

from antiphon.edge.errors import ResumeExpired
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.resume_token import ResumeToken


@dataclass(frozen=True, slots=True)
class Return:
    """A client that comes back with this token; it has every message up to number `last`."""

    token: ResumeToken
    last: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """`resume`: to be able to come back; `back`: it does."""

    resume: bool = False
    back: Return | None = None
    capabilities: bool = False
    notices: bool = False
    timing: bool = False
    transcript: bool = False
    progress: bool = False
    playback_ack: bool = False


def read_wishes(query: QueryParams) -> Wishes:
    """Raises ResumeExpired for what cannot be a token, InvalidInput for what cannot be a number."""

    def asked(name: str) -> bool:
        return query.get(name) == "1"

    back = _read_return(query)
    return Wishes(
        resume=asked("resume") or back is not None,
        back=back,
        capabilities=asked("capabilities"),
        notices=asked("notices"),
        timing=asked("timing"),
        transcript=asked("transcript"),
        progress=asked("progress"),
        playback_ack=asked("playback_ack"),
    )


def _read_return(query: QueryParams) -> Return | None:
    text = query.get("resume_token")
    if text is None:
        return None
    token = ResumeToken.parse(text)
    if token is None:
        raise ResumeExpired
    last = query.get("seq", "0")
    if not (last.isascii() and last.isdigit() and len(last) < 16):
        raise InvalidInput("seq: must be the number of the last message received", field="seq")
    return Return(token, int(last))
