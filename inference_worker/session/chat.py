"""What the streams of a chat request tell a worker that takes it over from another."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.inference_worker.session.records import History, PastLost, begins_late
from antiphon.shared_schemas.entries import DeltaOut, PrefillDoneOut


@dataclass(frozen=True, slots=True)
class Past:
    """How far the last worker came: whether the client knows the prefill done, and what was said."""

    prefill_told: bool = False
    said: str = ""


def recall(outputs: History) -> Past:
    """Rebuild it from what was published; an answer that is not streamed leaves nothing behind.

    Raises PastLost where the answer is longer than its stream.
    """
    if begins_late(outputs):
        raise PastLost("the beginning of the answer is no longer in Redis (stream_max_entries)")
    entries = [entry for _, entry in outputs]
    return Past(
        prefill_told=any(isinstance(entry, PrefillDoneOut) for entry in entries),
        said="".join(entry.text_delta for entry in entries if isinstance(entry, DeltaOut)),
    )
