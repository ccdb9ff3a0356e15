"""Recovery of a chat from its streams."""

import pytest

from antiphon.inference_worker.sessions.recovery import (
    RecoveredChat,
    StreamHistory,
    Unrecoverable,
    recover_chat,
)
from antiphon.shared_schemas.entries import DeltaOut, PrefillDoneOut, ProgressOut, StreamPosition

OUTPUTS = [
    (StreamPosition(5, 1, n), entry)
    for n, entry in enumerate(
        [PrefillDoneOut(input_tokens=3), DeltaOut(text_delta="so "), DeltaOut(text_delta="far")], 1
    )
]


def test_the_published_text_is_known() -> None:
    assert recover_chat(StreamHistory(outputs=())) == RecoveredChat()
    assert recover_chat(StreamHistory(outputs=OUTPUTS)) == RecoveredChat(
        prefill_done=True, said="so far"
    )


def test_the_published_progress_is_known() -> None:
    published = [ProgressOut(done=done) for done in (0.25, 0.75)]
    outputs = [(StreamPosition(5, 1, n), entry) for n, entry in enumerate(published, 1)]
    assert recover_chat(StreamHistory(outputs=outputs)) == RecoveredChat(progress=0.75)


def test_an_answer_longer_than_its_stream_is_unrecoverable() -> None:
    with pytest.raises(Unrecoverable, match="start of the answer"):
        recover_chat(StreamHistory(outputs=OUTPUTS[1:]))
