"""The text of `recording.json`, written item by item and changed at its end."""

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.shared_schemas.recording import (
    DuplexRecording,
    TurnRecording,
    change_end,
    parse_recording,
    recording_blocks,
)
from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import chunk, result
from support.timed_conversations import TimedTalk
from support.turn_conversations import chat_talk, half_duplex_talk


def recordings(folder: Path) -> list[DuplexRecording | TurnRecording]:
    duplex = TimedTalk.prepared()
    for seed in range(3):
        n = duplex.into(seed, chunk(seed))
        duplex.out(seed + 0.1, result(n, speak=True, text='a "word",\n  "merged_replay": 1\n}'))
    chat, half = TimedTalk(SessionKind.CHAT), TimedTalk(SessionKind.HALF_DUPLEX)
    for talk, entries in ((chat, chat_talk()), (half, half_duplex_talk())):
        for place, (side, entry) in enumerate(entries):
            (talk.into if side == "in" else talk.out)(place / 10, entry)
    empty = TimedTalk.prepared()
    talks = {"duplex": duplex, "chat": chat, "half": half, "empty": empty}
    return [talk.record(folder / name).recording for name, talk in talks.items()]


def test_the_text_is_that_of_the_whole_record(tmp_path: Path) -> None:
    for recording in recordings(tmp_path):
        data = recording.model_dump(mode="json", exclude_none=True)
        text = orjson.dumps(data, option=orjson.OPT_INDENT_2)
        assert b"".join(recording_blocks(recording)) == text


@pytest.mark.parametrize("before", [{}, {"merged_replay": "a.wav", "merged_replay_lead_ms": 2.5}])
def test_only_the_end_is_changed(tmp_path: Path, before: dict[str, Any]) -> None:
    for recording in recordings(tmp_path):
        blank = dict.fromkeys(("merged_replay", "merged_replay_video", "merged_replay_lead_ms"))
        bare = recording.model_copy(update=blank)
        text = io.BytesIO(b"".join(recording_blocks(bare)))
        change_end(text, lambda _: before)
        assert parse_recording(text.getvalue()) == bare.model_copy(
            update={name: value for name, value in before.items() if hasattr(bare, name)}
        )
        found: dict[str, Any] = {}

        def change(fields: dict[str, Any], found: dict[str, Any] = found) -> dict[str, Any]:
            found.update(fields)
            return {"merged_replay": "b.wav"}

        change_end(text, change)
        assert found == before
        named = bare.model_copy(update={"merged_replay": "b.wav"})
        assert text.getvalue() == b"".join(recording_blocks(named))


def test_a_text_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown form"):
        change_end(io.BytesIO(b"{}"), lambda fields: fields)
