"""Conversations for the recorder's tests: written to real streams, or straight into a directory."""

from __future__ import annotations

import asyncio
import os
import uuid
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from hypothesis import strategies as st

from antiphon.broker.client import Broker
from antiphon.broker.streams import StreamWriter
from antiphon.recorder_service.folder import RecordingFolder
from antiphon.recorder_service.journal.journal import SIDES, Side
from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.recorder_service.replay.merge import merge
from antiphon.shared_schemas.audio import PcmFormat, Samples, float_bytes, to_pcm16
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StreamPosition,
)
from antiphon.shared_schemas.ids import ResumeToken, new_recording_id
from antiphon.shared_schemas.recording import META_FILE, TIMELINE_FILE, Meta
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.control_plane import AUDIO, claim, serve

Script = list[tuple[Side, StreamPosition, Entry]]
PATIENCE_S = 100.0


def sound(seed: int, n: int) -> Samples:
    """Noise that exceeds full scale, so that clipping is visible."""
    return np.random.default_rng(seed).uniform(-1.1, 1.1, n).astype(np.float32)


def chunk(seed: int, *, frames: int = 0, n: int = 1600, **more: Any) -> ChunkIn:
    """A short chunk; every third one is PCM16."""
    pictures = tuple(f"\xff\xd8 picture {seed}.{i}".encode("latin1") for i in range(frames))
    if seed % 3 == 2:
        audio, pcm = to_pcm16(sound(seed, n)).tobytes(), PcmFormat.S16
    else:
        audio, pcm = float_bytes(sound(seed, n)), PcmFormat.F32
    return ChunkIn(audio=audio, pcm=pcm, frames=pictures, **more)


def result(
    input_n: int, *, speak: bool = False, end_of_turn: bool = False, **more: Any
) -> ResultOut:
    """A unit's result; a spoken one has 50 ms of audio made from `input_n`."""
    values: dict[str, Any] = {
        "received_at": 1000.0 * input_n,
        "read_at": 1000.0 * input_n + 3.25,
        "prefill_ms": 11.11,
        "wall_clock_ms": 80.04,
        "is_listen": not speak,
        "text": f"word{input_n} " if speak else "",
        "audio": float_bytes(sound(9000 + input_n, 1200)) if speak else b"",
        "end_of_turn": end_of_turn,
        "current_time": 1000 * input_n,
        "cost_llm_ms": 45.25,
        "cost_tts_prep_ms": 0.5,
        "cost_tts_ms": 12.0,
        "cost_token2wav_ms": 3.0,
        "cost_all_ms": 70.0,
        "n_tokens": 3,
        "n_tts_tokens": 4,
        "kv_cache_length": 100 + input_n,
        "vision_slices": 0,
        "vision_tokens": 0,
        "simulated": False,
        "memo": {},
    }
    return ResultOut(input_n=input_n, **{**values, **more})


class LiveTalk:
    """One session in Redis with the writers of an edge and a worker; the test plays both."""

    def __init__(
        self, broker: Broker, sid: str, ticket: int, recording: str, kind: SessionKind
    ) -> None:
        self.broker = broker
        self.sid = sid
        self.ticket = ticket
        self.recording = recording
        self.kind = kind
        self.claim: Claim | None = None
        self.said: Script = []
        self.ending = SessionEnding()
        self.into: StreamWriter
        self.out: StreamWriter

    @classmethod
    async def queue(
        cls,
        broker: Broker,
        sid: str = "",
        kind: SessionKind = SessionKind.AUDIO_DUPLEX,
        *,
        resumable: bool = False,
    ) -> LiveTalk:
        sid, recording = sid or f"adx_{uuid.uuid4().hex[:10]}", new_recording_id()
        token = ResumeToken(sid, "secret") if resumable else None
        ticket = await broker.queue.join(sid, kind, edge="e1", recording=recording, resume=token)
        return cls(broker, sid, ticket.number, recording, kind)

    @classmethod
    async def assigned(cls, broker: Broker, sid: str = "", kind: SessionKind = AUDIO) -> LiveTalk:
        """Creates a session that a worker has claimed."""
        talk = await cls.queue(broker, sid, kind)
        await talk.assign()
        return talk

    @classmethod
    async def begin(cls, broker: Broker, sid: str = "") -> LiveTalk:
        """Creates a session that a worker has claimed and prepared."""
        talk = await cls.assigned(broker, sid)
        await talk.prepare()
        return talk

    async def say(self, entries: list[tuple[str, Entry]]) -> None:
        for side, entry in entries:
            await (self.into if side == "in" else self.out).append(entry)

    async def assign(self, worker: str = "w1") -> None:
        await serve(self.broker, worker, slots=1000)
        self.claim = await claim(self.broker, worker)
        assert self.claim.sid == self.sid
        streams = self.broker.streams
        self.into = await streams.input_writer(self.sid, self.ticket)
        self.out = await streams.output_writer(self.sid, self.ticket, self.claim.epoch)

    async def prepare(self) -> None:
        voice = float_bytes(sound(77, 800))
        config = DuplexConfig(force_listen_count=1)
        await self.into.append(PrepareIn(system_prompt="Be brief.", config=config, ref_audio=voice))
        await self.out.append(PreparedOut(input_n=1, prompt_length=12))

    async def note(self, config: DuplexConfig) -> None:
        """Stores the decision in the session's row, as the worker does before it prepares."""
        assert self.claim is not None
        move, state = self.broker.leases.move, SessionState.PREPARING
        epoch = self.claim.epoch
        assert await move(self.sid, "w1", epoch, state, summary=config.model_dump())

    async def exchange(self, seed: int, *, frames: int = 0) -> None:
        """Sends one chunk and its result: two units listen, two speak, the second of them ends the turn."""
        position = await self.into.append(chunk(seed, frames=frames))
        phase = seed % 4
        speak = phase >= 2
        await self.out.append(result(position.n, speak=speak, end_of_turn=phase == 3))

    async def script(self) -> Script:
        """All entries of both streams, as the recorder reads them."""
        keys = self.broker.keys
        sides: dict[Side, str] = {"in": keys.inbound(self.sid), "out": keys.outbound(self.sid)}
        found: Script = []
        for side, key in sides.items():
            async for position, entry in self.broker.streams.history(key, self.ticket):
                found.append((side, position, entry))
        return found

    async def end(self, reason: EndReason = EndReason.STOPPED) -> None:
        """Ends the session; keeps its entries and its ending for `assert_undisturbed`."""
        self.said = await self.script()
        assert await self.broker.sessions.end(self.sid, reason, ticket=self.ticket)
        row = await self.broker.sessions.get(self.sid)
        assert row is not None
        self.ending = SessionEnding(at=row.ended_at, reason=reason, worker=row.worker)

    @property
    def job(self) -> RecordingJob:
        return RecordingJob(
            sid=self.sid, ticket=self.ticket, kind=self.kind, recording=self.recording
        )


def assert_undisturbed(data_dir: Path, *talks: LiveTalk, meta: bool = True) -> None:
    """Asserts that each recording equals an undisturbed recorder's, including `meta.json` if `meta`."""
    blank = {} if meta else {"meta.json": b""}
    for talk in talks:
        expected = record_undisturbed(data_dir.parent / "quiet", talk.job, talk.said, talk.ending)
        assert_same(tree(data_dir / "sessions" / talk.recording) | blank, expected | blank)


def record_undisturbed(
    root: Path, job: RecordingJob, script: Script, ending: SessionEnding
) -> dict[str, bytes]:
    """The files of an undisturbed recorder for a script: relative path → content."""
    by_side = [item for side in SIDES for item in script if item[0] == side]
    return record_in_order(root, job, by_side, ending)


def record_in_order(
    root: Path, job: RecordingJob, script: Script, ending: SessionEnding
) -> dict[str, bytes]:
    """The same, in the order of the script; resumes an existing recording."""
    folder = RecordingFolder(root, job)
    for side, position, entry in script:
        folder.add(side, position, entry)
    folder.finish(ending)
    folder.close()
    merge(folder.path, keep_going)
    return tree(folder.path)


def keep_going() -> None:
    """Never stops the merge."""


def damage(path: Path, data: st.DataObject) -> None:
    """Damages a recording as a crash does: torn journal, temporary files, missing or empty media, no meta."""
    journal = path / "timeline.jsonl"
    if not journal.exists():
        return
    if data.draw(st.booleans(), "tear the journal"):
        os.truncate(journal, data.draw(st.integers(0, journal.stat().st_size), "at"))
    if data.draw(st.booleans(), "leave a temporary file"):
        (path / "user_audio" / ".000.wav.0a0b0c0d.tmp").write_bytes(b"half")
    media = sorted([*path.glob("*/*.wav"), *path.glob(".pieces/*.pcm")])
    if media and data.draw(st.booleans(), "lose a file as a power failure does"):
        os.truncate(data.draw(st.sampled_from(media), "which"), 0)
    if data.draw(st.booleans(), "lose the meta"):
        os.truncate(path / "meta.json", 0)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_same(actual: dict[str, bytes], expected: dict[str, bytes]) -> None:
    """Compares byte by byte and names the file that differs."""
    assert sorted(actual) == sorted(expected), actual.keys() ^ expected.keys()
    for name, content in expected.items():
        assert actual[name] == content, name


def read_wav(path: Path) -> tuple[int, np.ndarray[Any, Any]]:
    """Rate and 16-bit samples, by the standard library's reader."""
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


def meta_of(data_dir: Path, recording: str) -> Meta | None:
    """A session's `meta.json`, which must be complete whenever it exists."""
    path = data_dir / "sessions" / recording / META_FILE
    return Meta.model_validate(orjson.loads(path.read_bytes())) if path.exists() else None


def journal_lines(data_dir: Path, talk: LiveTalk) -> int:
    """The number of entries in the journal."""
    journal = data_dir / "sessions" / talk.recording / TIMELINE_FILE
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S:g} s: {what}") from None


async def until_finished(data_dir: Path, *talks: LiveTalk) -> list[Meta]:
    for talk in talks:
        await until(lambda t=talk: _finished(data_dir, t.recording), f"{talk.sid} is recorded")  # type: ignore[misc]
    return [meta for talk in talks if (meta := meta_of(data_dir, talk.recording))]


def _finished(data_dir: Path, recording: str) -> bool:
    """True when the meta says so and the recorder's working files are deleted."""
    meta = meta_of(data_dir, recording)
    journal = data_dir / "sessions" / recording / TIMELINE_FILE
    return meta is not None and not meta.is_busy and not journal.exists()


async def unacknowledged(broker: Broker) -> int:
    """Transitions that a recorder has received and not acknowledged."""
    group = await broker.events.join_group("recorder", "probe")
    try:
        return len(await group._pending())
    finally:
        await group.close()


async def until_acknowledged(broker: Broker) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await unacknowledged(broker):
            await asyncio.sleep(0.02)
