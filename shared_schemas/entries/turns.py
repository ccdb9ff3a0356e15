"""The entries of a session of the kind `turns`, beside those of half-duplex sessions.

Also what edges and workers both compute of such a session: the ids of items, and the part that was played.
"""

import secrets
from typing import Any
from unicodedata import east_asian_width

import msgspec

from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage, restore
from antiphon.shared_schemas.entries.base import StreamEntry


class SettingsIn(StreamEntry, tag="settings"):
    """The settings of a session of the kind `turns`, whole, from here on.

    `ref_audio` is float32 PCM at 16 kHz; empty means none.
    """

    config: TurnsConfig
    ref_audio: bytes = b""


class ItemIn(StreamEntry, tag="item"):
    """An item that the client adds behind the item `after`; None: at the beginning.

    `content`, `blobs`: the flattened message (see `content`).
    """

    item_id: str
    after: str | None
    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = ()

    def restored(self) -> ConversationMessage:
        return restore(self.content, self.blobs)[0]


class DeleteItemIn(StreamEntry, tag="delete_item"):
    """Remove an item from the conversation."""

    item_id: str


class TruncateItemIn(StreamEntry, tag="truncate_item"):
    """The client has played `audio_ms` of an answer; the model forgets the rest of it."""

    item_id: str
    audio_ms: int


class CommitIn(StreamEntry, tag="commit"):
    """The sound since the last item becomes an item. `event_id`: what a refusal names."""

    event_id: str | None = None


class ClearIn(StreamEntry, tag="clear"):
    """Forget the sound since the last item."""


class RespondIn(StreamEntry, tag="respond"):
    """Answer with these settings.

    `in_conversation`: the answer becomes an item of the conversation. `refs`: what to answer instead of the
    whole conversation, in order; an item's id, or None for the next message of `content`.
    """

    response_id: str
    config: TurnsConfig
    ref_audio: bytes = b""
    in_conversation: bool = True
    refs: list[str | None] | None = None
    content: list[dict[str, Any]] = msgspec.field(default_factory=list)
    blobs: tuple[bytes, ...] = ()
    event_id: str | None = None

    def messages(self) -> tuple[ConversationMessage, ...]:
        return restore(self.content, self.blobs)


class CancelIn(StreamEntry, tag="cancel"):
    """End an answer that is being generated, or has not begun. None: the current one."""

    response_id: str | None = None


class ItemOut(StreamEntry, tag="item_out"):
    """The user's sound became an item, within input `input_n`. `audio`: 16-bit PCM at 16 kHz.

    `stopped_ms`: the position in the session's sound at which the user stopped speaking; None if the client
    has committed it. `response_id`: the answer that follows; None if none does by itself.
    """

    input_n: int
    item_id: str
    audio: bytes = b""
    stopped_ms: int | None = None
    response_id: str | None = None


class TranscriptOut(StreamEntry, tag="transcript"):
    """What the user said in an item of `seconds`; None: there is no transcript, for the reason `problem`."""

    input_n: int
    item_id: str
    text: str | None
    seconds: float
    problem: str = ""


class RefusedOut(StreamEntry, tag="refused"):
    """A command of the client that is not possible now, and has changed nothing.

    `code` is one of OpenAI's. `response_id`: the answer that it asked for.
    """

    input_n: int
    code: str
    message: str
    event_id: str | None = None
    response_id: str | None = None


class PastItems(StreamEntry, tag="past_items"):
    """The state of a session of the kind `turns`, as recovery needs it, so that its entries can be trimmed.

    `last_input` and `last_output` are the stream ids of the last entries that belong to it.
    """

    last_input: str
    last_output: str
    state: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


def new_item_id() -> str:
    return f"item_{secrets.token_hex(10)}"


def new_response_id() -> str:
    return f"resp_{secrets.token_hex(10)}"


def call_item_id(item_id: str, number: int) -> str:
    """The item of an answer's call of a function; `item_id` is that of its message."""
    return f"{item_id}_{number}"


def played_part(text: str, audio_ms: int, played_ms: int) -> str:
    """The words of an answer that belong to the first `played_ms` of its sound.

    Words are not timed: the text is cut in proportion, before the word that was not played to its end.
    """
    if played_ms >= audio_ms:
        return text
    return whole_words(text, len(text) * max(0, played_ms) // audio_ms)


def whole_words(text: str, end: int) -> str:
    """The first `end` characters, without a word that continues after them.

    Chinese and Japanese have no spaces: each of their characters may be the last.
    """
    while 0 < end < len(text) and _is_inside_word(text, end):
        end -= 1
    return text[:end].rstrip()


def _is_inside_word(text: str, place: int) -> bool:
    beside = text[place - 1 : place + 1]
    return not any(one.isspace() or east_asian_width(one) in ("W", "F") for one in beside)
