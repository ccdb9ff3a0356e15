"""Questions to an edge in one call: `Client(url).ask("question.wav")`."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from antiphon.client.arguments import check_seconds
from antiphon.client.duplex import DuplexSession, connect_duplex
from antiphon.client.errors import MissingFile, NoAnswer
from antiphon.client.options import ClientOptions, check_options, with_options
from antiphon.client.recordings import Recordings
from antiphon.client.session import prepared_within
from antiphon.client.sound import read_source, save_wav
from antiphon.client.turns import Turn, TurnLog, joined_audio, joined_text, speech_end_s
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenReply:
    """The reply to a question. `recording_id` is None if the session was not recorded."""

    turns: tuple[Turn, ...]
    """What the model said, in order: also what it said before the end of the question."""
    session_id: str
    recording_id: str | None

    @property
    def text(self) -> str:
        """The texts of all turns."""
        return joined_text(self.turns)

    @property
    def audio(self) -> Samples:
        """The speech of all turns, float32 mono at 24 kHz."""
        return joined_audio(self.turns)

    def save(self, path: str | Path) -> None:
        """Write the speech as a 16-bit WAV file. Raises OSError."""
        save_wav(Path(path), self.audio)


class Client:
    """Asks spoken questions to an edge, and reads its recordings."""

    @with_options
    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        """Nothing connects before the first call.

        Args:
            url: Address of an edge, such as `ws://127.0.0.1:8006`.
            api_key: Key of an edge with API keys.
            tls: Replaces the default checks of the certificate of a `wss://` address.
            open_timeout_s: Time to connect, in seconds.
            binary: Send and receive media as bytes instead of base64, if the edge supports it: 25 % less
                traffic.
            pcm: With `binary`: `"s16"` halves the traffic again, and rounds the audio to 16 bits.
            transcript: Ask for the user's words, `user_text` of the results, if the worker recognises them.
                Not in chat.
            resume: Reconnect to the session after a lost connection, and repeat no message.
            resume_for_s: How long to try to reconnect, in seconds.
            other_edges: Addresses of further edges to reconnect through.
        """
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
        config: DuplexConfig | Mapping[str, Any] | None = None,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
        ref_audio_path: str | None = None,
        patience_s: float = 20.0,
        longest_s: float = 300.0,
    ) -> SpokenReply:
        """Speak a question in real time and return the reply. Blocks until the reply is complete.

        Args:
            question: A sound file, or an array of float32 mono at 16 kHz.
            system_prompt: The role of the model.
            config: Settings of the conversation, such as `{"temperature": 0.5}`.
            ref_audio: A voice to speak with, float32 mono at 16 kHz.
            tts_ref_audio: A voice for the speech alone, if it is another one.
            ref_audio_path: The name of a voice on the server, in place of `ref_audio`.
            patience_s: How long to wait for speech after the question, and between two pieces of speech.
            longest_s: How long after the question the reply may end.

        Raises NoAnswer without a complete reply in these times, or if for `patience_s` there is no worker that
        could take the session, or the server does not prepare it. Raises InvalidAudio, the errors of
        `connect_duplex`, and RuntimeError where an event loop runs: `await client.aask(...)` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # the call is not here: its errors would be shown as consequences of this one
        else:
            raise RuntimeError("an event loop runs here: use `await client.aask(...)`")
        return asyncio.run(
            self.aask(
                question,
                system_prompt=system_prompt,
                config=config,
                ref_audio=ref_audio,
                tts_ref_audio=tts_ref_audio,
                ref_audio_path=ref_audio_path,
                patience_s=patience_s,
                longest_s=longest_s,
            )
        )

    async def aask(
        self,
        question: str | Path | Samples,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        config: DuplexConfig | Mapping[str, Any] | None = None,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
        ref_audio_path: str | None = None,
        patience_s: float = 20.0,
        longest_s: float = 300.0,
    ) -> SpokenReply:
        """As `ask`, which describes the arguments, for programs with an event loop."""
        check_seconds("patience_s", patience_s)
        check_seconds("longest_s", longest_s)
        samples = await asyncio.to_thread(_loaded, question)
        async with connect_duplex(self.url, **self._options) as session:
            await session.wait_for_turn(no_worker_s=patience_s)
            async with prepared_within(patience_s):
                await session.prepare(
                    system_prompt,
                    config,
                    ref_audio=ref_audio,
                    tts_ref_audio=tts_ref_audio,
                    ref_audio_path=ref_audio_path,
                )
            return SpokenReply(
                turns=await _reply(session, samples, patience_s, longest_s),
                session_id=session.session_id,
                recording_id=session.recording_id,
            )


async def _reply(
    session: DuplexSession, question: Samples, patience_s: float, longest_s: float
) -> tuple[Turn, ...]:
    """Ask, and return what the model says. Raises NoAnswer."""
    asked_s, log, clock = speech_end_s(question), TurnLog(), asyncio.get_running_loop()
    sent_at = clock.time() + len(question) / INPUT_RATE
    last_at = sent_at + longest_s
    try:
        async with (
            asyncio.timeout_at(min(sent_at + patience_s, last_at)) as limit,
            aclosing(session.converse(question)) as units,
        ):
            async for unit in units:
                log.add(unit.message, unit.audio)
                if log.answers(asked_s):
                    return log.turns
                if not unit.is_listen:
                    limit.reschedule(min(max(sent_at, clock.time()) + patience_s, last_at))
    except TimeoutError:
        if log.is_complete:
            return log.turns
        if clock.time() >= last_at:
            raise _no_answer(f"the reply did not end within {longest_s:g} s", log) from None
        raise _no_answer(f"no complete reply within {patience_s:g} s", log) from None
    raise _no_answer("the session ended before the reply was complete", log)


def _no_answer(cause: str, log: TurnLog) -> NoAnswer:
    said = f"; the model said: {log.text}" if log.text else ""
    return NoAnswer(cause + said, log.turns)


def _loaded(question: str | Path | Samples) -> Samples:
    """Raises InvalidAudio."""
    try:
        return read_source(question, INPUT_RATE)
    except MissingFile as error:
        remedy = "`Client.ask` takes a sound file, and `antiphon.ask` text"
        raise MissingFile(f"{error.message} ({remedy})") from None
