"""The list of recordings for administrators."""

import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.recordings import index
from antiphon.shared_schemas.recording import META_FILE, RECORDING_FILE
from antiphon.shared_schemas.states import SessionKind
from support.edge_harness import running_edge
from support.recordings import read_json, recorded

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def http(settings: BrokerSettings, root: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with running_edge(settings, data_dir=root.parent) as edge, edge.http() as client:
        yield client


async def listed(http: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await http.get("/api/sessions", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["complete"]
    return [one["id"] for one in answer.json()["sessions"]]


async def test_a_row(http: httpx.AsyncClient, root: Path) -> None:
    recording = recorded(root, units=3, at=NOON)
    [row] = (await http.get("/api/sessions")).json()["sessions"]
    meta = read_json(root / recording / META_FILE)
    assert (row["id"], row["url"], row["chunks"]) == (recording, f"/s/{recording}", 3)
    for name in ("session_id", "app_type", "state", "reason", "duration_s", "worker_id", "turns"):
        assert row[name] == meta[name], name
    assert row["first_words"] == "word3"  # of the second unit, the only one that speaks
    assert datetime.fromisoformat(row["created_at"]) == NOON
    sizes = [path.stat().st_size for path in (root / recording).rglob("*") if path.is_file()]
    assert row["size_bytes"] == sum(sizes)


async def test_pages_newest_first(http: httpx.AsyncClient, root: Path) -> None:
    made = [recorded(root, units=1, at=NOON + timedelta(hours=i)) for i in range(5)][::-1]
    assert await listed(http) == made
    seen = []
    for offset in range(0, 6, 2):
        page = (await http.get("/api/sessions", params={"offset": offset, "limit": 2})).json()
        assert (page["total"], page["offset"], page["limit"]) == (5, offset, 2)
        seen += [one["id"] for one in page["sessions"]]
    assert seen == made
    assert await listed(http, offset=99) == []


async def test_filters(http: httpx.AsyncClient, root: Path) -> None:
    audio = recorded(root, units=1, kind=SessionKind.AUDIO_DUPLEX, sid="adx_7", at=NOON)
    omni = recorded(root, units=1, sid="omni_7", at=NOON + timedelta(days=1))
    going = recorded(root, units=1, sid="omni_8", at=NOON + timedelta(days=2))
    path = root / going / META_FILE
    path.write_text(path.read_text().replace('"complete"', '"recording"'))
    assert await listed(http, kind="audio_duplex") == [audio]
    assert await listed(http, kind="chat") == []
    assert await listed(http, state="recording") == [going]
    assert await listed(http, state="complete", kind="omni_duplex") == [omni]
    day = (NOON + timedelta(days=1)).isoformat()
    assert await listed(http, since=day) == [going, omni]
    assert await listed(http, until=day) == [audio]
    assert await listed(http, since="2026-03-02", until="2026-03-03T00:00:00Z") == [omni]
    assert await listed(http, since="2026-03-02T13:00:00+02:00", until="2026-03-03") == [omni]
    for since in ("0001-01-01T00:00:00+14:00", "0001-01-01"):
        assert len(await listed(http, since=since, until="9999-12-31T23:59:59-14:00")) == 3


async def test_invalid_queries(http: httpx.AsyncClient) -> None:
    for name, value in (
        *(("kind", "x"), ("state", "x"), ("since", "x"), ("limit", 0), ("limit", 201)),
        *(("offset", -1), ("text", "x" * 201)),
    ):
        assert (await http.get("/api/sessions", params={name: value})).status_code == 422, name


async def test_text_search(http: httpx.AsyncClient, root: Path) -> None:
    rome = recorded(root, units=2, prompt="Talk about RÖMER.", sid="omni_rome", at=NOON)
    other = recorded(root, units=4, worker="w-other", at=NOON + timedelta(days=1))
    assert await listed(http, text="römer") == [rome]
    assert await listed(http, text="OMNI_ROME") == [rome]
    assert await listed(http, text="w-other") == [other]
    assert await listed(http, text=rome[:9]) == [rome]
    assert await listed(http, text="word3") == [other, rome]
    assert await listed(http, text="word5 ") == [other]
    assert await listed(http, text="user_audio") == []  # no recording contains that text
    (root / other / RECORDING_FILE).write_text("{")
    assert await listed(http, text="word5") == []
    assert await listed(http, text="word3") == [rome]


async def test_an_incomplete_search(
    http: httpx.AsyncClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_SEARCHED", 2)
    made = [recorded(root, units=1, at=NOON + timedelta(hours=i)) for i in range(3)][::-1]
    page = (await http.get("/api/sessions", params={"text": "brief"})).json()
    assert (page["complete"], page["total"]) == (False, 2)
    assert [one["id"] for one in page["sessions"]] == made[:2]


async def test_the_list_follows_the_disk(http: httpx.AsyncClient, root: Path) -> None:
    one = recorded(root, units=1, at=NOON)
    assert await listed(http, state="complete") == [one]
    path = root / one / META_FILE
    (root / one / "next").write_text(path.read_text().replace('"complete"', '"interrupted"'))
    (root / one / "next").replace(path)
    assert await listed(http, state="complete") == []
    other = recorded(root, units=1, at=NOON + timedelta(days=1))
    assert await listed(http) == [other, one]
    shutil.rmtree(root / one)
    assert await listed(http) == [other]
    (root / "notes").mkdir()
    (root / ("f" * 32)).write_text("x")
    (root / ("a" * 32)).symlink_to(root / other)
    assert await listed(http) == [other]
