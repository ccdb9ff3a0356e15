"""Reads the journal's lines back."""

from pathlib import Path

import pytest
from msgspec import structs

from antiphon.recorder_service.journal.journal import (
    NO_MEDIA,
    Journal,
    OutageEntry,
    OutageStart,
    SavedFile,
    SavedMedia,
    Side,
    read_finished_journal,
    read_journal,
    to_journal,
    without_lost_files,
)
from antiphon.shared_schemas.entries import StopIn, StreamPosition, VadOut
from antiphon.shared_schemas.unit_result import user_transcript
from support.recorder_conversations import SIDES, chunk, result
from support.turn_conversations import T0, chat_talk, half_duplex_talk, numbered


@pytest.mark.parametrize("talk", [chat_talk, half_duplex_talk])
def test_every_entry_is_read_back_without_its_media(tmp_path: Path, talk: object) -> None:
    script = numbered(talk(), 7)  # type: ignore[operator]
    written = [to_journal(side, at, entry, NO_MEDIA) for side, at, entry in script]
    journal = Journal(tmp_path / "timeline.jsonl")
    for item in written:
        journal.append(item)
    journal.close()
    contents = read_journal(tmp_path / "timeline.jsonl")
    for side in SIDES:
        assert list(contents.of(side)) == [item for item in written if item.side == side]
    for item in written:
        for field in structs.fields(item.entry):
            if field.type in (bytes, tuple[bytes, ...]):
                assert not getattr(item.entry, field.name)


def test_of_a_memo_only_the_transcript_and_the_words_are_stored() -> None:
    memo = {"user": "hello", "word_times": [[0.0, "Hi"]], "tokens": [1, 2]}
    transcribed = result(3, memo=memo, interim_user_text="how are")
    item = to_journal("out", StreamPosition(7, 1, 3), transcribed, NO_MEDIA)
    assert item.entry.memo == {"user": "hello", "word_times": [[0.0, "Hi"]]}
    assert item.entry.interim_user_text is None
    heard = VadOut(input_n=3, speaking=True, interim_user_text="how are")
    assert to_journal("out", StreamPosition(7, 1, 4), heard, NO_MEDIA).entry == structs.replace(
        heard, interim_user_text=None
    )
    assert user_transcript(item.entry) == "hello"
    other = to_journal("out", StreamPosition(7, 1, 3), result(3, memo={"user": 1}), NO_MEDIA)
    assert user_transcript(other.entry) is None


def test_media_and_outages_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"12345")
    sound = SavedFile(file="a.wav", size=5, samples=2)
    media = SavedMedia(
        audio=sound,
        frames=(SavedFile(file="a.wav", size=5),),
        parts=(SavedFile(unreadable="noise"),),
        references={"ref_audio": sound},
        chunk_index=4,
    )
    item = to_journal("in", StreamPosition(7, 1, 2), chunk(1), media)
    after: dict[Side, StreamPosition] = {
        "in": StreamPosition(7, 1, 2),
        "out": StreamPosition(7, 0, 0),
    }
    outage = OutageEntry(OutageStart(T0, "No space left on device"), T0 + 5.5, after)
    journal = Journal(tmp_path / "timeline.jsonl")
    journal.append(item)
    journal.append(outage)
    journal.close()
    contents = read_journal(tmp_path / "timeline.jsonl")
    assert contents.inputs == [item]
    assert contents.outages == [outage]
    assert contents.size == (tmp_path / "timeline.jsonl").stat().st_size

    (tmp_path / "a.wav").write_bytes(b"123")
    contents = read_journal(tmp_path / "timeline.jsonl")
    assert (contents.inputs, contents.lost) == ([item], {("in", item.position): {"a.wav"}})
    gone = SavedFile(unreadable="the file was deleted or changed")
    assert without_lost_files(contents).inputs[0].media == SavedMedia(
        audio=gone, frames=(gone,), parts=media.parts, chunk_index=4
    )
    assert read_journal(tmp_path / "timeline.jsonl", {"in": 2, "out": 9}).size == 0
    assert read_journal(tmp_path / "timeline.jsonl", {"in": 3, "out": 0}).inputs == [item]
    assert read_finished_journal(tmp_path / "timeline.jsonl").inputs == [item]


def test_an_unreadable_line_ends_a_journal_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    journal = Journal(path)
    journal.append(to_journal("in", StreamPosition(7, 1, 1), StopIn(at=1.0), NO_MEDIA))
    journal.close()
    whole = path.read_bytes()
    for rest in (b'{"stream":"in"', b"[]\n", b'{"stream":"in","id":"7001-2","entry":{}}\n'):
        path.write_bytes(whole + rest + whole)
        contents = read_journal(path)
        assert (len(contents.inputs), contents.size) == (1, len(whole))
    with pytest.raises(ValueError, match="cannot be read"):
        read_finished_journal(path)
