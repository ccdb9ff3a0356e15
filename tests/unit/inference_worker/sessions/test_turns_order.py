"""The order of a conversation's items, whenever its answers end, and the sound that they keep."""

import pytest

from antiphon.inference_worker.sessions.turns.conversation import Item, TurnsConversation
from antiphon.shared_schemas.config import TurnsConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    DeleteItemIn,
    GeneratingOut,
    ItemIn,
    RespondIn,
    TranscriptOut,
    TurnDoneOut,
)
from antiphon.shared_schemas.entries.turns import ItemOut

CALL = {"id": "call", "type": "function", "function": {"name": "time", "arguments": "{}"}}


def written(text: str, after: str | None) -> ItemIn:
    message = ConversationMessage(Role.USER, (TextPart(text),))
    content, blobs = flatten([message])
    return ItemIn(item_id=text, after=after, content=content, blobs=blobs)


def asked() -> TurnsConversation:
    """The answer to the item "first" has begun."""
    conversation = TurnsConversation()
    conversation.apply_input(written("first", None))
    conversation.apply_input(RespondIn(response_id="one", config=TurnsConfig()))
    conversation.apply_output(
        GeneratingOut(
            input_n=2, turn_index=0, speech_duration_ms=0, response_id="one", item_id="answer"
        )
    )
    return conversation


def says(conversation: TurnsConversation, item_id: str) -> None:
    """The user speaks, and an answer to that is due."""
    audio = b"\0\0" * 16000
    conversation.apply_output(
        ItemOut(input_n=3, item_id=item_id, audio=audio, response_id=f"to {item_id}")
    )
    conversation.apply_output(TranscriptOut(input_n=3, item_id=item_id, text=item_id, seconds=1.0))


def ends(conversation: TurnsConversation, text: str = "An answer", **fields: object) -> None:
    conversation.apply_output(
        TurnDoneOut(input_n=3, turn_index=0, text=text, response_id="one", **fields)  # type: ignore[arg-type]
    )


def roles(conversation: TurnsConversation) -> list[Role]:
    return [message.role for message in conversation.question(conversation.wanted[0])]


def test_many_items_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs the worker the same, however many there are, and so does a reference to one."""
    looks = 0
    as_text = Item.as_text.fget
    assert as_text is not None

    def counted(item: Item) -> ConversationMessage:
        nonlocal looks
        looks += 1
        return as_text(item)

    monkeypatch.setattr(Item, "as_text", property(counted))
    conversation, count = TurnsConversation(), 300
    for number in range(count):
        after = f"text {number - 1}" if number else None
        conversation.apply_input(written(f"text {number}", after))
        says(conversation, f"speech {number}")
    assert looks < 20 * count
    looks = 0
    refs = ["text 0"] * 5000
    conversation.apply_input(RespondIn(response_id="two", config=TurnsConfig(), refs=refs))
    assert len(conversation.question(conversation.wanted[-1])) == len(refs)
    assert looks == len(refs)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_question_during_an_answer_follows_it(stopped: bool) -> None:
    """The engine may end an interrupted answer after the user has said all of the next question."""
    conversation = asked()
    says(conversation, "second")
    ends(conversation, stopped=stopped)
    assert [item.id for item in conversation.items] == ["first", "answer", "second"]
    assert roles(conversation) == [Role.USER, Role.ASSISTANT, Role.USER]
    assert conversation.items[-1].sound


@pytest.mark.parametrize("after", ["first", "answer"])
def test_an_item_that_is_written_during_an_answer_follows_it(after: str) -> None:
    conversation = asked()
    conversation.apply_input(written("second", after))
    ends(conversation)
    assert [item.id for item in conversation.items] == ["first", "answer", "second"]


def test_a_call_stays_before_what_was_said_during_it() -> None:
    conversation = asked()
    says(conversation, "second")
    ends(conversation, "", tool_calls=[CALL])
    assert roles(conversation) == [Role.USER, Role.ASSISTANT, Role.USER]


def test_an_answer_that_is_deleted_before_its_end_is_forgotten() -> None:
    """LiveKit deletes an answer of which nothing was played."""
    conversation = asked()
    conversation.apply_input(DeleteItemIn(item_id="answer"))
    ends(conversation, stopped=True, tool_calls=[CALL])
    assert [item.id for item in conversation.items] == ["first", "answer_0"]


def test_an_answer_to_a_deleted_item_still_precedes_the_next() -> None:
    conversation = asked()
    conversation.apply_input(DeleteItemIn(item_id="first"))
    says(conversation, "second")
    ends(conversation)
    assert [item.id for item in conversation.items] == ["answer", "second"]


def test_only_the_last_of_the_transcribed_items_keeps_its_sound() -> None:
    conversation = TurnsConversation()
    for item_id in ("one", "two", "three"):
        says(conversation, item_id)
    assert [item.sound is not None for item in conversation.items] == [False, False, True]
    assert [item.message.text for item in conversation.items[:2]] == ["one", "two"]
    assert [item.audio_ms for item in conversation.items] == [1000, 1000, 1000]
