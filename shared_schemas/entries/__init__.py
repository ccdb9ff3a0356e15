"""The entries of a session's streams. Each kind of session has a module; this one reads them."""
# mypy: implicit-reexport

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import msgspec

from antiphon.shared_schemas.entries.answers import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InterruptedOut,
    PrefillDoneOut,
    ProgressOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.entries.base import (
    EPOCHS_PER_TICKET,
    HEADER,
    ErrorOut,
    StopIn,
    StoppedOut,
    StreamEntry,
    StreamPosition,
    TimeoutOut,
    UnreadableEntry,
    field_that_cannot_be_packed,
    pack,
    raw_fields,
)
from antiphon.shared_schemas.entries.duplex import (
    ChunkIn,
    DiagnosticIn,
    PastSteps,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    TextAddedOut,
    TextIn,
    TextKind,
)
from antiphon.shared_schemas.entries.turns import (
    CancelIn,
    ClearIn,
    CommitIn,
    DeleteItemIn,
    ItemIn,
    ItemOut,
    PastItems,
    RefusedOut,
    RespondIn,
    SettingsIn,
    TranscriptOut,
    TruncateItemIn,
)

InEntry = (
    PrepareIn
    | ChunkIn
    | PauseIn
    | ResumeIn
    | PlaybackIn
    | TextIn
    | StopIn
    | DiagnosticIn
    | HalfDuplexPrepareIn
    | BreakIn
    | ChatIn
    | SettingsIn
    | ItemIn
    | DeleteItemIn
    | TruncateItemIn
    | CommitIn
    | ClearIn
    | RespondIn
    | CancelIn
)
"""Client to worker."""


OutEntry = (
    PreparedOut
    | ResultOut
    | PausedOut
    | ResumedOut
    | TextAddedOut
    | StoppedOut
    | TimeoutOut
    | ErrorOut
    | VadOut
    | GeneratingOut
    | DeltaOut
    | TurnDoneOut
    | InterruptedOut
    | ProgressOut
    | PrefillDoneOut
    | ChatDoneOut
    | ItemOut
    | TranscriptOut
    | RefusedOut
)
"""Worker to client."""


Entry = InEntry | OutEntry


PastEntry = PrepareIn | HalfDuplexPrepareIn | PastSteps
"""What another worker needs of the past: the accepted `prepare`, then the units or turns."""


EntryT = TypeVar("EntryT", bound=StreamEntry)


def _load(kind: Any, value: object) -> object:
    """Values of pydantic's classes."""
    return kind.model_validate(value)


_DECODER: msgspec.json.Decoder[StreamEntry] = msgspec.json.Decoder(
    Entry | PastEntry | PastItems, dec_hook=_load
)


def check_readable(entry: StreamEntry) -> None:
    """Raises UnreadableEntry, which names the field, if `unpack` could not read this entry. Takes 6 µs."""
    try:
        header = pack(entry)[1]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableEntry(f"{error} - at `$.{field_that_cannot_be_packed(entry)}`") from error
    try:
        _DECODER.decode(header)
    except (ValueError, RecursionError) as error:
        raise UnreadableEntry(str(error)) from error


@overload
def unpack(data: Mapping[bytes, bytes]) -> StreamEntry: ...
@overload
def unpack(data: Mapping[bytes, bytes], kinds: tuple[type[EntryT], ...]) -> EntryT: ...
def unpack(
    data: Mapping[bytes, bytes], kinds: tuple[type[StreamEntry], ...] | None = None
) -> StreamEntry:
    """Inverse of `pack`. Raises UnreadableEntry on an unknown or incomplete entry.

    It must be one of `kinds` if they are given.
    """
    try:
        entry = _DECODER.decode(data[HEADER])
    except (KeyError, ValueError, RecursionError) as error:
        raise UnreadableEntry(f"stream entry cannot be read: {error!r}") from error
    raw = raw_fields(type(entry))
    for name, key in raw.single:
        if value := data.get(key):
            msgspec.structs.force_setattr(entry, name, value)
    for name, key in raw.tuples:
        parts: list[bytes] = []
        while (part := data.get(b"%b%d" % (key, len(parts)))) is not None:
            parts.append(part)
        msgspec.structs.force_setattr(entry, name, tuple(parts))
    if kinds is not None and not isinstance(entry, kinds):
        raise UnreadableEntry(f"a {entry.tag!r} entry does not belong in this stream")
    return entry
