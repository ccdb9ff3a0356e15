"""Questions to an edge in one call: `Client(url).ask("question.wav")`."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import numpy as np

from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import NoAnswer
from antiphon.client.options import ClientOptions, check_options, check_seconds, with_options
from antiphon.client.recordings import Recordings
from antiphon.client.sound import check_samples, load_wav, save_wav
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenReply:
    """The reply to one question. `recording_id` is None if the session was not recorded."""

    text: str
    audio: Samples = field(repr=False)
    """Float32 mono at 24 kHz."""
    session_id: str
    recording_id: str | None

    def save(self, path: str | Path) -> None:
        """Write the speech as a 16-bit WAV file. Raises OSError."""
        save_wav(Path(path), self.audio)


class Client:
    """An edge such as `ws://127.0.0.1:8006`. The options are those of `connect_duplex`."""

    @with_options
    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        check_options(options)
        self.url = url
        self._options = options

    @property
    def recordings(self) -> Recordings:
        """The recordings of this edge."""
        return Recordings(
            self.url, api_key=self._options.get("api_key"), tls=self._options.get("tls")
        )

    def ask(
        self,
        question: str | Path | Samples,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        patience_s: float = 20.0,
    ) -> SpokenReply:
        """As `aask`, for programs without an event loop. Raises RuntimeError where one runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asked = self.aask(question, system_prompt=system_prompt, patience_s=patience_s)
            return asyncio.run(asked)
        raise RuntimeError("an event loop runs here: use `await client.aask(...)`")

    async def aask(
        self,
        question: str | Path | Samples,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        patience_s: float = 20.0,
    ) -> SpokenReply:
        """Speak a question in real time and return the reply.

        The question is a 16-bit WAV file, or float32 mono at 16 kHz. Raises NoAnswer if the reply is not
        complete `patience_s` after the last speech, or if for this time there is no worker that could
        take the session, InvalidAudio, OSError for the file, and the errors of `connect_duplex`.
        """
        check_seconds("patience_s", patience_s)
        samples = check_samples(_loaded(question))
        async with connect_duplex(self.url, **self._options) as session:
            await session.wait_for_turn(no_worker_s=patience_s)
            await session.prepare(system_prompt)
            text, audio = "", [SILENCE]
            asked_s = len(samples) / INPUT_RATE
            give_up_at = time.monotonic() + asked_s + patience_s
            async with aclosing(session.converse(samples)) as units:
                async for unit in units:
                    if not unit.is_listen and unit.message.current_time > asked_s * 1000:
                        text += unit.text
                        audio.append(unit.audio)
                        give_up_at = time.monotonic() + patience_s
                        if unit.end_of_turn:
                            break
                    elif time.monotonic() > give_up_at:
                        raise NoAnswer(f"no complete reply within {patience_s:g} s")
                else:
                    raise NoAnswer("the session ended before the reply was complete")
            return SpokenReply(
                text=text.strip(),
                audio=np.concatenate(audio),
                session_id=session.session_id,
                recording_id=session.recording_id,
            )


def _loaded(question: str | Path | Samples) -> Samples:
    """Raises InvalidAudio or OSError."""
    if not isinstance(question, str | Path):
        return question
    try:
        return load_wav(question)
    except FileNotFoundError as error:
        remedy = "`Client.ask` takes a sound file, and `antiphon.ask` text"
        raise FileNotFoundError(
            error.errno, f"{error.strerror} ({remedy})", str(question)
        ) from None
