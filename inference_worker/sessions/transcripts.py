"""Transcripts of users, for engines that make none. They are made beside the engine, on one thread."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from antiphon.inference_worker.engines.common.barge_in import Words
from antiphon.inference_worker.engines.common.silero import SpeechDetector
from antiphon.inference_worker.engines.local.hearing.interim import InterimText
from antiphon.inference_worker.engines.local.hearing.speech_input import SpeechInput, endpoint_rules
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser, transcribe
from antiphon.shared_schemas.audio import Samples

log = structlog.get_logger()

_END_SILENCE_MS = 480
_MOST_PENDING = 60
"""Units of a session that wait for the recogniser. Newer sound is left out."""
_WORDS_PATIENCE_S = 0.3
"""How long a unit waits for the words of a voice that may interrupt. Then the voice counts as speech."""
_PATIENCE_S = 2.0
"""How long the end of a turn waits for the transcript of its utterance."""


class UserTranscriber:
    """The recogniser of the engine `local` (English). All sessions of a worker share it and its thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")
        self._recogniser: Recogniser | None = None

    def load(self) -> None:
        """Raises EngineLoadError with the command that installs the recogniser."""
        self._recogniser = Recogniser()
        SpeechDetector()

    def listen(self) -> "SpeechTranscript":
        """The transcript of one full-duplex session."""
        return SpeechTranscript(SpeechInput(self._loaded, _RULES), self._submit)

    def transcribe(self, utterance: Samples) -> Future[str]:
        """Begin to transcribe an utterance of a turn."""
        return self._submit(lambda: transcribe(self._loaded, utterance).text)

    def words_in(self, speech: Samples) -> Words | None:
        """What is said in a piece of speech; None if the recogniser is too busy or has failed."""
        future = self._thread.submit(self._loaded.words_in, speech)
        future.add_done_callback(_log_failure)
        try:
            return future.result(timeout=_WORDS_PATIENCE_S)
        except TimeoutError:
            future.cancel()
            return None
        except Exception:  # noqa: BLE001 - it is in the log, and the voice itself decides
            return None

    def interim(self) -> InterimText:
        """The text of an utterance of a turn while it continues."""
        return InterimText(self._loaded)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    @property
    def _loaded(self) -> Recogniser:
        assert self._recogniser is not None, "load must come first"
        return self._recogniser

    def _submit(self, work: Callable[[], str]) -> Future[str]:
        future = self._thread.submit(work)
        future.add_done_callback(_log_failure)
        return future


_RULES = endpoint_rules(_END_SILENCE_MS, 1.0)


class SpeechTranscript:
    """What the user of a full-duplex session says, in utterances.

    `said_so_far` is what was recognised of the utterance that continues, None unless `interim` is set.
    """

    def __init__(
        self, speech: SpeechInput, submit: Callable[[Callable[[], str]], Future[str]]
    ) -> None:
        self._speech = speech
        self._submit = submit
        self._room = threading.Semaphore(_MOST_PENDING)
        self._texts: SimpleQueue[str] = SimpleQueue()
        self.interim = False
        self.said_so_far: str | None = None

    def feed(self, audio: Samples) -> None:
        """Add a unit of sound. Returns at once."""
        if self._room.acquire(blocking=False):
            self._submit(lambda: self._transcribe(audio))

    def take(self) -> str:
        """The utterances that were recognised since the last call; empty if there are none."""
        texts = []
        while True:
            try:
                texts.append(self._texts.get_nowait())
            except Empty:
                return " ".join(texts)

    def _transcribe(self, audio: Samples) -> str:
        try:
            text = self._speech.feed(audio).text
            if self.interim:
                self.said_so_far = self._speech.words_so_far()
        finally:
            self._room.release()
        if text:
            self._texts.put(text)
        return text


async def utterance_text(transcript: Future[str]) -> str:
    """The text of an utterance; empty if it is not ready in time or the recogniser has failed."""
    waiting = asyncio.wrap_future(transcript)
    waiting.add_done_callback(_failed)  # else the event loop reports a failure that comes later
    try:
        await asyncio.wait([waiting], timeout=_PATIENCE_S)
        return waiting.result() if waiting.done() and not _failed(waiting) else ""
    finally:
        transcript.cancel()  # if the recogniser has not begun: it would never catch up with the turns


def _failed(future: asyncio.Future[str] | Future[str]) -> bool:
    return future.cancelled() or future.exception() is not None


def _log_failure(future: Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()):
        log.warning("transcript_failed", error=str(error), exc_info=error)
