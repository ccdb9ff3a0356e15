"""Makes `peaks.json` of recordings that were merged before recorders wrote it."""

from __future__ import annotations

import structlog

from antiphon.edge.recordings.store import RecordingNotFound, RecordingStore, StoreUnavailable
from antiphon.shared_schemas.audio import WaveformPeaks
from antiphon.shared_schemas.recording import PEAKS_FILE, REPLAY_WAV

log = structlog.get_logger()


def make_peaks(store: RecordingStore, recording: str) -> bytes | None:
    """Reads the whole replay, unless the recording has peaks; returns those that cannot be saved.

    Raises RecordingNotFound without a replay, and what else RecordingStore raises.
    """
    try:
        store.open(recording, PEAKS_FILE).close()
    except RecordingNotFound:
        pass
    else:
        return None
    with store.open(recording, REPLAY_WAV) as wav:
        try:
            made = WaveformPeaks.of_wav(wav).encode()
        except ValueError as error:
            log.warning("replay_unreadable", recording=recording, error=str(error))
            raise RecordingNotFound("the replay of the recording cannot be read") from None
    try:
        store.write(recording, PEAKS_FILE, made)
    except StoreUnavailable as error:
        log.debug("peaks_not_saved", recording=recording, error=str(error))
        return made
    return None
