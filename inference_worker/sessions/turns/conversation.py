"""The items of one session, its settings, and the answers that are due.

The streams determine the state: a worker that takes over applies their entries in the same order. So an
item of the client goes behind the item that the client saw last, an answer behind the items that it
answers, and all others at the end.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Role,
    TextPart,
    ToolCall,
    flatten,
    restore,
)
from antiphon.shared_schemas.entries import (
    CancelIn,
    DeleteItemIn,
    DeltaOut,
    GeneratingOut,
    InEntry,
    ItemIn,
    ItemOut,
    OutEntry,
    PastItems,
    RefusedOut,
    RespondIn,
    SettingsIn,
    TranscriptOut,
    TruncateItemIn,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.entries.turns import call_item_id, played_part

MOST_SOUND_S = 120
"""Of items without a transcript, or the newest one if it is longer. The model does not hear older ones."""

_MS_BYTES = 4 * OUTPUT_RATE // 1000
_UTTERANCE_MS_BYTES = PcmFormat.S16.width * INPUT_RATE // 1000


@dataclass(slots=True)
class Item:
    """A message of the conversation. `audio_ms`: the length of an answer's or an utterance's sound."""

    id: str
    message: ConversationMessage
    transcript: str | None = None
    audio_ms: int = 0

    @property
    def sound(self) -> AudioPart | None:
        """The sound of an item that is one utterance."""
        match self.message.parts:
            case (AudioPart() as part,):
                return part
        return None

    @property
    def samples(self) -> int:
        """Of its sound that has no transcript."""
        sounds = [part for part in self.as_text.parts if isinstance(part, AudioPart)]
        return sum(len(part.data) // part.pcm.width for part in sounds)

    @property
    def as_text(self) -> ConversationMessage:
        """The message with its transcript in place of its sound."""
        if self.transcript is None:
            return self.message
        return replace(self.message, parts=(TextPart(self.transcript),))


@dataclass(slots=True)
class WantedResponse:
    """An answer that is due. `said`, `audio_ms`: the part that the client already has.

    `refs`, `messages`, `in_conversation` as in RespondIn. `config` is None for the session's.
    """

    id: str
    config: TurnsConfig | None = None
    ref_audio: bytes = field(default=b"", repr=False)
    in_conversation: bool = True
    refs: Sequence[str | None] | None = None
    messages: tuple[ConversationMessage, ...] = ()
    asked_at: float | None = None
    begun: GeneratingOut | None = None
    cancelled: str | None = None
    said: str = ""
    audio_ms: int = 0
    played_ms: int | None = None
    """What the client has played, if it says so before the end."""
    deleted: bool = False
    """Its client does not want what it says in the conversation."""
    answered: frozenset[str] = frozenset()
    """The items that the conversation had when the answer began. It goes behind them."""

    @classmethod
    def of(cls, entry: RespondIn) -> "WantedResponse":
        return cls(
            entry.response_id,
            entry.config,
            entry.ref_audio,
            entry.in_conversation,
            entry.refs,
            entry.messages(),
            entry.at,
        )


class TurnsConversation:
    """Changed by the entries of the streams only."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._sounding: list[Item] = []
        """Those with sound that has no transcript, in the order in which they came."""
        self.config = TurnsConfig()
        self.ref_audio = b""
        self.turns = 0
        """The index of the next answer."""
        self.wanted: deque[WantedResponse] = deque()

    def find(self, item_id: str) -> Item | None:
        return next((item for item in self.items if item.id == item_id), None)

    def apply_input(self, entry: InEntry) -> None:
        match entry:
            case SettingsIn():
                self.config, self.ref_audio = entry.config, entry.ref_audio
            case ItemIn():
                self._insert(Item(entry.item_id, entry.restored()), entry.after)
            case DeleteItemIn():
                self._delete(entry.item_id)
            case TruncateItemIn():
                self._truncate(entry)
            case RespondIn():
                self.wanted.append(WantedResponse.of(entry))
            case CancelIn():
                self.cancel("client_cancelled", entry.response_id)

    def apply_output(self, entry: OutEntry) -> None:
        match entry:
            case VadOut(speaking=True) if self.config.interruptible:
                self.interrupt()
            case ItemOut():
                sound = AudioPart(entry.audio, PcmFormat.S16)
                message = ConversationMessage(Role.USER, (sound,))
                audio_ms = len(entry.audio) // _UTTERANCE_MS_BYTES
                self._append(Item(entry.item_id, message, audio_ms=audio_ms))
                if entry.response_id:
                    self.wanted.append(WantedResponse(entry.response_id))
            case TranscriptOut(text=str(text)):
                if item := self.find(entry.item_id):
                    item.transcript = text
                    self._forget_sound_of(item)
            case RefusedOut():
                self._drop(entry.response_id)
            case GeneratingOut() | DeltaOut() | TurnDoneOut():
                self._apply_answer(entry)

    def _apply_answer(self, entry: GeneratingOut | DeltaOut | TurnDoneOut) -> None:
        match entry:
            case GeneratingOut():
                self.turns = entry.turn_index + 1
                for wanted in self.wanted:
                    if wanted.id == entry.response_id:
                        wanted.begun = entry
                        wanted.answered = frozenset(item.id for item in self.items)
            case DeltaOut() if self.wanted:
                self.wanted[0].said += entry.text_delta
                self.wanted[0].audio_ms += len(entry.audio) // _MS_BYTES
            case TurnDoneOut():
                self._answered(entry)

    def interrupt(self) -> None:
        """The user speaks: the answers of the conversation end."""
        for wanted in self.wanted:
            if wanted.in_conversation:
                wanted.cancelled = wanted.cancelled or "turn_detected"

    def cancel(self, reason: str, response_id: str | None) -> None:
        """End the answer with this id; None: the first one."""
        for wanted in self.wanted:
            if response_id in (None, wanted.id):
                wanted.cancelled = wanted.cancelled or reason
                return

    def question(self, wanted: WantedResponse) -> list[ConversationMessage]:
        """What the model reads: the instructions, and the items or the input of this answer."""
        config = wanted.config or self.config
        system = [_text(Role.SYSTEM, config.instructions)] if config.instructions.strip() else []
        if wanted.refs is None:
            return [*system, *self._history()]
        own, items = iter(wanted.messages), {item.id: item for item in self.items}
        chosen = (
            next(own) if ref is None else items[ref].as_text if ref in items else None
            for ref in wanted.refs
        )
        return [*system, *joined_calls(message for message in chosen if message is not None)]

    def name_of(self, message: ConversationMessage, wanted: WantedResponse) -> str:
        """A message of `question`, as the client calls it."""
        for number, own in enumerate(wanted.messages):
            if own is message:
                places = [place for place, ref in enumerate(wanted.refs or ()) if ref is None]
                return f"response.input.{places[number]}"
        item = next((item for item in self.items if item.message is message), None)
        return f"item {item.id!r}" if item else "the conversation"

    def snapshot(self, last_input: str, last_output: str, samples: int) -> PastItems:
        """Everything, at a time at which no answer is due. `samples`: received so far."""
        content, blobs = flatten(item.as_text for item in self.items)
        state = {
            "items": [[item.id, item.transcript, item.audio_ms] for item in self.items],
            "content": content,
            "config": self.config.model_dump(),
            "turns": self.turns,
            "samples": samples,
        }
        return PastItems(
            last_input=last_input,
            last_output=last_output,
            state=state,
            blobs=(*blobs, self.ref_audio),
        )

    @classmethod
    def restored(cls, past: PastItems) -> "TurnsConversation":
        self, state = cls(), past.state
        messages = restore(state["content"], past.blobs)
        self.items = [
            Item(item_id, message, transcript, audio_ms)
            for (item_id, transcript, audio_ms), message in zip(
                state["items"], messages, strict=True
            )
        ]
        self.config = TurnsConfig.model_validate(state["config"])
        self.turns, self.ref_audio = state["turns"], past.blobs[-1] if past.blobs else b""
        return self

    def _insert(self, item: Item, after: str | None) -> None:
        ids = [each.id for each in self.items]
        if after is not None and after not in ids:
            self._append(item)
            return
        self.items.insert(0 if after is None else ids.index(after) + 1, item)
        self._forget_old_sound(item)

    def _append(self, item: Item) -> None:
        self.items.append(item)
        self._forget_old_sound(item)

    def _forget_old_sound(self, added: Item) -> None:
        """Only items with sound are looked at: a client may add thousands of others."""
        for item in (added, *self.items[-2:-1]):
            self._forget_sound_of(item)
        self._sounding = [item for item in (*self._sounding, added) if item.samples]
        most, kept = MOST_SOUND_S * INPUT_RATE, 0
        for item in reversed(self._sounding):
            samples = item.samples
            if kept and kept + samples > most:
                rest = (part for part in item.message.parts if not isinstance(part, AudioPart))
                item.message = replace(item.message, parts=tuple(rest))
            kept += samples

    def _forget_sound_of(self, item: Item) -> None:
        """Unless it is the last one: an engine can tell how sure it is of the words."""
        if item is not self.items[-1]:
            item.message = item.as_text

    def _delete(self, item_id: str) -> None:
        self.items = [item for item in self.items if item.id != item_id]
        self._sounding = [item for item in self._sounding if item.id != item_id]
        for wanted in self.wanted:
            if wanted.begun and wanted.begun.item_id == item_id:
                wanted.deleted = True

    def _truncate(self, entry: TruncateItemIn) -> None:
        if item := self.find(entry.item_id):
            _cut(item, entry.audio_ms)
        for wanted in self.wanted:
            if wanted.begun and wanted.begun.item_id == entry.item_id:
                wanted.played_ms = entry.audio_ms

    def _drop(self, response_id: str | None) -> None:
        self.wanted = deque(wanted for wanted in self.wanted if wanted.id != response_id)

    def _answered(self, entry: TurnDoneOut) -> None:
        wanted = next((each for each in self.wanted if each.id == entry.response_id), None)
        self._drop(entry.response_id)
        if wanted is None or not wanted.in_conversation or not wanted.begun:
            return
        item_id = wanted.begun.item_id
        made: list[Item] = []
        if entry.text and not wanted.deleted:
            audio_ms = entry.memo.get("audio_ms", 0)
            message = _text(Role.ASSISTANT, entry.text)
            item = Item(item_id, message, audio_ms=audio_ms)
            if wanted.played_ms is not None:
                _cut(item, wanted.played_ms)
            made.append(item)
        for number, wire in enumerate(entry.tool_calls):
            call = ConversationMessage(Role.ASSISTANT, (), (ToolCall.of_wire(wire),))
            made.append(Item(call_item_id(item_id, number), call))
        place = self._place_behind(wanted.answered)
        self.items[place:place] = made
        for item in self.items[max(0, place - 1) : place]:
            self._forget_sound_of(item)

    def _place_behind(self, ids: frozenset[str]) -> int:
        """What the user said during an answer follows it, so that the model answers that next."""
        places = (place for place, item in enumerate(self.items, start=1) if item.id in ids)
        return max(places, default=0)

    def _history(self) -> list[ConversationMessage]:
        """The last utterance stays sound: an engine can tell how sure it is of the words."""
        messages = [item.as_text for item in self.items]
        if self.items and self.items[-1].sound:
            messages[-1] = self.items[-1].message
        return joined_calls(messages)


def _cut(item: Item, played_ms: int) -> None:
    """Forget the part of a spoken answer that was not played."""
    if item.message.role is Role.ASSISTANT and item.audio_ms:
        text = played_part(item.message.text, item.audio_ms, played_ms)
        item.message = _text(Role.ASSISTANT, text)
        item.audio_ms = min(item.audio_ms, played_ms)


def _text(role: Role, text: str) -> ConversationMessage:
    return ConversationMessage(role, (TextPart(text),))


def joined_calls(messages: Iterable[ConversationMessage]) -> list[ConversationMessage]:
    """Without empty messages; the calls of one answer are in one message, as models expect them."""
    joined: list[ConversationMessage] = []
    for message in messages:
        if not (message.parts or message.tool_calls):
            continue
        if message.tool_calls and joined and joined[-1].role is Role.ASSISTANT:
            last = joined[-1]
            joined[-1] = replace(last, tool_calls=(*last.tool_calls, *message.tool_calls))
        else:
            joined.append(message)
    return joined


def without_tools(messages: Iterable[ConversationMessage]) -> list[ConversationMessage]:
    """For engines that do not know tools."""
    kept = (message for message in messages if message.role is not Role.TOOL)
    return joined_calls(replace(m, tool_calls=()) if m.tool_calls else m for m in kept)


def shortened(messages: Sequence[ConversationMessage]) -> list[ConversationMessage] | None:
    """Without the older half, from a message of the user on. None: nothing can be left out."""
    head = list(messages[:1]) if messages and messages[0].role is Role.SYSTEM else []
    rest = list(messages[len(head) :])
    is_begin: Callable[[int], bool] = lambda n: rest[n].role is Role.USER  # noqa: E731
    begin = next(filter(is_begin, range(max(1, len(rest) // 2), len(rest))), None)
    return None if begin is None else [*head, *rest[begin:]]
