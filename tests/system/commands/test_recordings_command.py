"""`antiphon recordings`: on this machine's disk, and on an edge over HTTP."""

import asyncio
import re
import subprocess
import time
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import orjson
import pytest
import soundfile
from rich.cells import cell_len

from antiphon import Client
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.commands.recordings import parse_time
from antiphon.client.errors import ClientError, Unauthorized, UnknownRecording
from antiphon.shared_schemas.recording import META_FILE
from antiphon.shared_schemas.recording_list import RecordingQuery
from antiphon.shared_schemas.states import SessionKind
from support.edge_harness import RunningEdge, running_edge
from support.fork_server import run_antiphon
from support.processes import without_settings
from support.recordings import read_json, recorded

KEY, TOKEN = "client-key-0123456789", "admin-token-0123456789"
DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions"


@pytest.fixture
def old(sessions: Path) -> str:
    sessions.mkdir(parents=True)
    return recorded(sessions, sid="adx_7", kind=SessionKind.AUDIO_DUPLEX, at=DAY)


@pytest.fixture
def new(sessions: Path, old: str) -> str:
    return recorded(sessions, sid="adx_7", kind=SessionKind.AUDIO_DUPLEX, prompt="Sing.")


@pytest.fixture
async def edge(settings: BrokerSettings, sessions: Path) -> AsyncIterator[RunningEdge]:
    options = {"data_dir": sessions.parent, "api_keys": [KEY], "admin_token": TOKEN}
    async with running_edge(settings, **options) as running:
        yield running


async def antiphon(*args: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = without_settings()
    return await asyncio.to_thread(
        run_antiphon,
        "recordings",
        *args,
        folder=folder,
        environment=kept | {"NO_COLOR": "1"} | env,
    )


async def test_recordings_are_listed_newest_first(
    tmp_path: Path, sessions: Path, old: str, new: str
) -> None:
    _change_words(sessions / old, None)
    _change_words(sessions / new, "意大利的首都是哪里？" * 12)
    shown = await antiphon("list", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    header, *rows = shown.stdout.splitlines()
    assert max(map(cell_len, shown.stdout.splitlines())) <= 80
    assert header.split() == ["recording", "begun", "s", "first", "words"]
    assert [row.split()[0] for row in rows] == [old, new]  # `recorded` without a date: 2023
    assert rows[0].split()[-1] == "(audio_duplex)"
    assert " 意大利的首都是哪里？" in rows[1]
    assert rows[1].rstrip().endswith("…")
    wide = await antiphon("list", "--wide", folder=tmp_path)
    assert ("意大利的首都是哪里？" * 12 in wide.stdout, "adx_7" in wide.stdout) == (True, True)
    found = await antiphon("list", "--text", "sing", "--json", folder=tmp_path)
    [row] = orjson.loads(found.stdout)["sessions"]
    assert (row["id"], row["session_id"]) == (new, "adx_7")
    nothing = await antiphon("list", "--kind", "chat", folder=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (0, "no recording matches\n")


def test_a_time_without_a_zone_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Etc/GMT-5")
        time.tzset()
        assert parse_time("2026-03-01T14:30") == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
        assert parse_time("2026-03-01T14:30Z") == datetime(2026, 3, 1, 14, 30, tzinfo=UTC)
    time.tzset()


async def test_a_time_selects_recordings(tmp_path: Path, old: str) -> None:
    for since, found in (("2026-03-01", old), ("2026-03-03", "no recording matches")):
        assert found in (await antiphon("list", "--since", since, folder=tmp_path)).stdout
    failed = await antiphon("list", "--since", "yesterday", folder=tmp_path)
    assert (failed.returncode, "'yesterday' is no time" in failed.stderr) == (2, True)


def _change_words(folder: Path, words: str | None) -> None:
    """None: as a recorder without first words has written it."""
    meta = read_json(folder / META_FILE)
    del meta["first_words"]
    changed = meta if words is None else meta | {"first_words": words}
    (folder / META_FILE).write_bytes(orjson.dumps(changed))


async def test_both_ids_name_a_recording(tmp_path: Path, old: str, new: str) -> None:
    for name, found in ((new, new), ("adx_7", old), (f"data/sessions/{new}", new)):
        shown = await antiphon("show", name, folder=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert f"recording  {found}" in shown.stdout
        assert "session    adx_7 (audio_duplex)" in shown.stdout
        assert "end of turn" in shown.stdout


async def test_an_export_is_a_zip_or_a_folder(tmp_path: Path, old: str) -> None:
    done = await antiphon("export", "adx_7", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / f"{old}.zip") as archive:
        names = archive.namelist()
        assert f"{old}/meta.json" in names
    again = await antiphon("export", "adx_7", folder=tmp_path)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert (await antiphon("export", "adx_7", "--force", folder=tmp_path)).returncode == 0
    done = await antiphon("export", old, "-o", "call", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(tmp_path / "call") for path in (tmp_path / "call").rglob("*.*")}
    assert {Path(name).relative_to(old) for name in names} == written
    shown = await antiphon("show", "call", folder=tmp_path)
    assert f"recording  {old}" in shown.stdout
    done = await antiphon("export", "call", "-o", "again.zip", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "again.zip") as archive:
        assert sorted(archive.namelist()) == sorted(names)


async def test_files_of_an_unfinished_recording_are_those_of_its_export(
    tmp_path: Path, sessions: Path, old: str
) -> None:
    (sessions / old / ".pieces").mkdir()
    (sessions / old / ".pieces" / "in_000001.pcm").write_bytes(bytes(1000))
    (sessions / old / "timeline.jsonl").write_bytes(b"{}")
    shown = await antiphon("show", old, "--json", folder=tmp_path)
    files = orjson.loads(shown.stdout)["files"]
    assert "meta.json" in files
    assert (await antiphon("export", old, folder=tmp_path)).returncode == 0
    with zipfile.ZipFile(tmp_path / f"{old}.zip") as archive:
        assert {f"{old}/{name}" for name in files} == set(archive.namelist())


async def test_the_merged_audio_can_be_written(tmp_path: Path, old: str) -> None:
    done = await antiphon("replay", "adx_7", "-o", "both.wav", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    audio, rate = soundfile.read(tmp_path / "both.wav")
    assert (audio.shape[1], rate) == (2, 24000)
    (tmp_path / "data" / "sessions" / old / "merged_replay.wav").unlink()
    lost = await antiphon("replay", old, "-o", "none.wav", folder=tmp_path)
    assert (lost.returncode, lost.stdout) == (1, "")
    assert "has no file merged_replay.wav" in lost.stderr
    assert not (tmp_path / "none.wav").exists()


async def test_an_edge_gives_its_recordings_to_the_administrator(
    tmp_path: Path, old: str, new: str, edge: RunningEdge
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    to_edge = {"ANTIPHON_URL": edge.url, "ANTIPHON_API_KEY": TOKEN}
    listed = await antiphon("list", "--json", folder=away, **to_edge)
    assert [row["id"] for row in orjson.loads(listed.stdout)["sessions"]] == [old, new]
    shown = await antiphon("show", "adx_7", folder=away, **to_edge)
    assert shown.returncode == 0, shown.stderr
    assert f"recording  {old}" in shown.stdout
    assert (await antiphon("export", "adx_7", folder=away, **to_edge)).returncode == 0
    assert (await antiphon("export", old, "-o", "call", folder=away, **to_edge)).returncode == 0
    assert (away / "call" / "meta.json").is_file()
    with zipfile.ZipFile(away / f"{old}.zip") as archive:
        assert f"{old}/meta.json" in archive.namelist()
    done = await antiphon("replay", "adx_7", "--out", "both.wav", folder=away, **to_edge)
    assert done.returncode == 0, done.stderr
    assert soundfile.info(away / "both.wav").channels == 2


async def test_a_client_needs_the_id_of_a_recording(
    tmp_path: Path, old: str, edge: RunningEdge
) -> None:
    flags = ("--url", edge.url, "-k", KEY)
    shown = await antiphon("show", old, *flags, folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for args, reason in (
        (("list", *flags), "the admin token is required"),
        (("show", "adx_7", *flags), "32 hexadecimal digits"),
        (("show", "0" * 32, *flags), "there is no such recording"),
        (("show", old, "--url", edge.url), "pass `api_key`, `--api-key` or ANTIPHON_API_KEY"),
        (("show", old, "--url", "ws://127.0.0.1:1"), "is `antiphon up` running?"),
    ):
        failed = await antiphon(*args, folder=tmp_path)
        assert (failed.returncode, failed.stdout) == (1, ""), args
        assert reason in failed.stderr
        assert len(failed.stderr.splitlines()) == 1


async def test_the_client_library_reads_recordings(
    tmp_path: Path, old: str, new: str, edge: RunningEdge
) -> None:
    def read() -> None:
        recordings = Client(edge.url, api_key=TOKEN).recordings
        page = recordings.list(RecordingQuery(limit=1))
        assert (page.total, [one.id for one in page.sessions]) == (2, [old])
        assert recordings.meta("adx_7").recording_id == old
        timeline = recordings.timeline(new)
        assert timeline is not None
        assert timeline.recording_id == new
        recordings.save(old, tmp_path / "merged.wav")
        assert soundfile.info(tmp_path / "merged.wav").channels == 2
        with pytest.raises(UnknownRecording, match="no file absent"):
            recordings.save(old, tmp_path / "x.wav", "absent.wav")
        with pytest.raises(UnknownRecording) as unknown:
            recordings.meta("adx_8")
        response = unknown.value.__context__
        assert isinstance(response, HTTPError)
        assert response.closed
        with pytest.raises(Unauthorized):
            Client(edge.url).recordings.meta(old)
        with pytest.raises(ClientError):
            Client("ws://127.0.0.1:1").recordings.meta(old)

    await asyncio.to_thread(read)


async def test_the_documented_program_runs(
    tmp_path: Path, old: str, settings: BrokerSettings, sessions: Path, capsys: Any
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "recordings.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    async with running_edge(settings, data_dir=sessions.parent) as edge:
        program = program.replace("ws://127.0.0.1:8006", edge.url)
        program = program.replace("recording.zip", str(tmp_path / "recording.zip"))
        await asyncio.to_thread(exec, program, {})
    assert capsys.readouterr().out == "adx_7 complete\n"
    with zipfile.ZipFile(tmp_path / "recording.zip") as archive:
        assert any(name.endswith("meta.json") for name in archive.namelist())


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("list",), "there are no recordings in data/sessions; --data-dir names another folder"),
        (("show", "adx_9"), "no recording of session adx_9 in data/sessions; --data-dir names"),
        (("export", "0" * 32), f"no recording {'0' * 32} in data/sessions; --data-dir names"),
        (("show", "a b"), "'a b' is no id of a recording or session, and no folder of a recording"),
        (("replay", "adx_9", "-o", "absent/x.wav"), "there is no folder absent"),
    ],
)
async def test_mistakes_name_the_remedy(tmp_path: Path, args: tuple[str, ...], reason: str) -> None:
    failed = await antiphon(*args, folder=tmp_path)
    assert failed.returncode == 1
    assert reason in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "args",
    [
        ("export",),
        ("export", "-o", "copy"),
        ("export", "-o", "new/copy"),
        ("replay", "-o", "r.wav"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, sessions: Path, old: str, args: tuple[str, ...]
) -> None:
    name = "merged_replay.wav" if args[0] == "replay" else "user_audio/000.wav"
    file = sessions / old / name
    content = file.read_bytes()
    file.unlink()
    file.symlink_to(file.name)
    action, *flags = args
    failed = await antiphon(action, "adx_7", *flags, folder=tmp_path)
    assert failed.returncode == 1
    if action == "export":
        reason = "cannot be read: Too many levels of symbolic links"
        assert failed.stderr == f"antiphon: data/sessions/{old}/{name} {reason}\n"
    if flags:
        assert not (tmp_path / flags[-1]).exists()
    file.unlink()
    file.write_bytes(content)
    done = await antiphon(action, "adx_7", *flags, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.parametrize("action", [("list",), ("show", "adx_7"), ("export", "adx_7")])
async def test_a_folder_and_an_edge_are_not_both_asked(
    tmp_path: Path, old: str, action: tuple[str, ...]
) -> None:
    folder, url = ("--data-dir", "data"), "ws://127.0.0.1:1"
    both = await antiphon(*action, "--url", url, *folder, folder=tmp_path)
    assert (both.returncode, both.stdout) == (2, "")
    assert both.stderr == "antiphon: use either --url or --data-dir, not both\n"
    done = await antiphon(*action, *folder, folder=tmp_path, ANTIPHON_URL=url)
    assert done.returncode == 0, done.stderr
