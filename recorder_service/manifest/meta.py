"""`meta.json`: kind, times, configuration and state of a recording."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import structlog

from antiphon.recorder_service.journal.journal import (
    SIDES,
    JournalContents,
    JournalEntry,
    OutageEntry,
)
from antiphon.recorder_service.journal.state import (
    JournalState,
    RecordingJob,
    SessionConfigIn,
    SessionEnding,
)
from antiphon.recorder_service.manifest.losses import disk_outages, moment
from antiphon.recorder_service.manifest.plan import plan_replay
from antiphon.shared_schemas.entries import ChatIn, HalfDuplexPrepareIn, SettingsIn
from antiphon.shared_schemas.recording import (
    META_FILE,
    DuplexRecording,
    Meta,
    RecordingState,
    ReplayState,
    TurnRecording,
    parse_meta,
)

log = structlog.get_logger()

_FIRST_CHARS = 120


def config_of(prepare: JournalEntry[SessionConfigIn] | None) -> dict[str, Any]:
    """Prompt, settings and references from the entry that states them; empty when there is none."""
    if prepare is None:
        return {}
    references = {name: saved.file for name, saved in prepare.media.references.items()}
    return {**_stated_config(prepare), **references}


def _stated_config(prepare: JournalEntry[SessionConfigIn]) -> dict[str, Any]:
    match prepare.entry:
        case HalfDuplexPrepareIn() as half:
            media = [part.file for part in prepare.media.parts if part.file is not None]
            shown = {"system_media": media} if media else {}
            prompt = _system_text(half.content)
            return {"system_prompt": prompt, **half.config.model_dump(mode="json"), **shown}
        case SettingsIn(config=settings):
            stated = settings.model_dump(mode="json")
            return {"system_prompt": stated.pop("instructions"), **stated}
        case ChatIn() as chat:
            options = chat.options.model_dump(mode="json")
            return {"system_prompt": _system_text(chat.content), **options}
        case duplex:
            return {
                "system_prompt": duplex.system_prompt,
                **duplex.config.model_dump(mode="json"),
                "deferred_finalize": duplex.deferred_finalize,
            }


def _system_text(content: Iterable[dict[str, Any]]) -> str:
    return "\n".join(text_of(m["parts"]) for m in content if m["role"] == "system")


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    """The text parts of a message."""
    return " ".join(part["text"] for part in parts if part["type"] == "text")


def first_words(recording: DuplexRecording | TurnRecording) -> str:
    """The beginning of what the user said, or of what the model said without a transcript."""
    if isinstance(recording, DuplexRecording):
        units = [chunk.result for chunk in recording.chunks if chunk.result is not None]
        asked, answered = [u.user_text for u in units], [u.text for u in units]
    else:
        asked = [turn.input.text for turn in recording.turns]
        answered = [turn.output.text for turn in recording.turns]
    return _beginning(asked) or _beginning(answered)


def _beginning(texts: Iterable[str | None]) -> str:
    """Whole words, with one space between them."""
    words: list[str] = []
    for word in chain.from_iterable((text or "").split() for text in texts):
        words.append(word)
        if sum(map(len, words)) + len(words) > _FIRST_CHARS:
            break
    return " ".join(words)[:_FIRST_CHARS]


def read_meta(folder: Path) -> Meta | None:
    """A session directory's meta, None when it is missing or unreadable."""
    try:
        return parse_meta((folder / META_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # a power failure may leave an unfinished recording's meta empty
        log.warning("recording_meta_unreadable", folder=folder.name, error=str(error))
        return None


def live_meta(
    job: RecordingJob, state: JournalState, worker: str, outages: Sequence[OutageEntry]
) -> Meta:
    return Meta(
        session_id=job.sid,
        recording_id=job.recording,
        ticket=job.ticket,
        app_type=job.kind,
        state=RecordingState.RECORDING,
        created_at=moment(state.start_ms),
        worker_id=worker,
        config=config_of(state.prepare),
        degraded=disk_outages(outages),
    )


def final_meta(
    job: RecordingJob,
    ending: SessionEnding,
    state: JournalState,
    recording: DuplexRecording | TurnRecording,
    recorded: JournalContents,
    contents: JournalContents,
) -> Meta:
    """The meta of a session that is over; its replay is still to be merged if there is any sound.

    `contents` are the `recorded` entries with steady times. The recording lasts until the last one:
    Redis' time of the end may be after a jump.
    """
    times = [item.entry.at for side in SIDES for item in contents.of(side)]
    ended_ms = max([state.start_ms, *times])
    has_entries = bool(contents.inputs or contents.outputs)
    whole = has_entries and ending.at is not None and not recording.missing
    has_sound = plan_replay(job.kind, state, contents).seconds > 0
    return live_meta(job, state, ending.worker, ()).model_copy(
        update={
            "state": RecordingState.COMPLETE if whole else RecordingState.INTERRUPTED,
            "reason": ending.reason,
            "ended_at": moment(ended_ms),
            "duration_s": round((ended_ms - state.start_ms) / 1000, 3),
            "chunks": len(recording.chunks) if isinstance(recording, DuplexRecording) else None,
            "turns": len(recording.turns) if isinstance(recording, TurnRecording) else None,
            "first_words": first_words(recording),
            "missing": recording.missing or [],
            "degraded": disk_outages(recorded.outages, recorded),
            "replay": ReplayState.MERGING if has_sound else ReplayState.NONE,
        }
    )
