"""Names and formats of the files in a session directory."""

import io
import wave
from pathlib import Path

import numpy as np
import orjson
import pytest

from antiphon.recorder_service.atomic_files import sync_tree, write_atomic
from antiphon.recorder_service.media import (
    wav_bytes,
)
from antiphon.shared_schemas.recording import (
    DuplexRecording,
    Meta,
    TurnRecording,
    encode_meta,
    parse_recording,
)
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wav import HEADER_BYTES


def test_a_wav_has_the_rounded_samples() -> None:
    samples = np.array([0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 1.4 / 32767], dtype=np.float32)
    data = wav_bytes(samples, 24000)
    assert len(data) == HEADER_BYTES + 2 * len(samples)
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24000)
        pcm = np.frombuffer(file.readframes(100), "<i2")
    assert pcm.tolist() == [0, 32767, -32767, 16384, 32767, -32768, 1]


def test_an_empty_chunk_is_an_empty_wav() -> None:
    with wave.open(io.BytesIO(wav_bytes(np.zeros(0, np.float32), 16000))) as file:
        assert file.getnframes() == 0


def test_a_file_is_replaced_atomically_and_leaves_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two", durable=True)
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "missing" / "x", b"")


def test_sync_tree_removes_the_leftovers_of_a_killed_writer(tmp_path: Path) -> None:
    (tmp_path / "user_audio").mkdir()
    (tmp_path / "user_audio" / "000.wav").write_bytes(b"kept")
    (tmp_path / "user_audio" / ".001.wav.1a2b3c4d.tmp").write_bytes(b"half")
    (tmp_path / ".meta.json.1a2b3c4d.tmp").write_bytes(b"half")
    (tmp_path / "meta.json").write_bytes(b"kept")
    sync_tree(tmp_path)
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["meta.json", "user_audio/000.wav"]


def test_the_meta_file_is_read_back_unchanged() -> None:
    meta = Meta.model_validate(
        {
            "session_id": "adx_1",
            "recording_id": "ab" * 16,
            "ticket": 3,
            "app_type": SessionKind.AUDIO_DUPLEX,
            "config": {"system_prompt": "ä", "top_k": 20},
            "state": "recording",
            "created_at": "2025-01-02T03:04:05.678Z",
        }
    )
    assert Meta.model_validate_json(encode_meta(meta)) == meta
    assert b'"created_at": "2025-01-02T03:04:05.678000Z"' in encode_meta(meta)
    assert b'"duration_s": null' in encode_meta(meta)


def test_the_mode_determines_the_class_of_a_recording(tmp_path: Path) -> None:
    common = {"session_id": "s", "recording_id": "r", "worker_id": "w", "events": [], "config": {}}
    start = {"start_ts": "2025-01-02T03:04:05Z"}
    duplex = {**common, **start, "mode": "duplex", "app_type": "omni_duplex"}
    chat = {**common, **start, "mode": "chat", "app_type": "chat", "turns": []}
    read = parse_recording(orjson.dumps({**duplex, "chunks": [], "diagnostics": []}))
    assert isinstance(read, DuplexRecording)
    assert isinstance(parse_recording(orjson.dumps(chat)), TurnRecording)
    for broken in (b"{", b"[]", b"{}", orjson.dumps({**chat, "mode": "novel"})):
        with pytest.raises(ValueError, match="validation error"):
            parse_recording(broken)


@pytest.mark.parametrize(
    ("state", "replay", "busy"),
    [
        ("recording", None, True),
        ("complete", "merging", True),
        ("interrupted", "merging", True),
        ("complete", "ready", False),
        ("interrupted", "failed", False),
        ("complete", "none", False),
    ],
)
def test_a_recorder_writes_until_the_replay_is_made(
    state: str, replay: str | None, busy: bool
) -> None:
    meta = Meta.model_validate(
        {
            "session_id": "s",
            "recording_id": "r",
            "ticket": 1,
            "app_type": "chat",
            "created_at": "2025-01-02T03:04:05Z",
            "config": {},
            "state": state,
            "replay": replay,
        }
    )
    assert meta.is_busy is busy
