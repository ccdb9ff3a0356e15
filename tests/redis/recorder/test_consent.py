"""A session with `record: false` leaves nothing on disk, and nothing in Redis after its end."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.broker.client import Broker
from antiphon.recorder_service.metrics import RecorderMetrics
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.entries import (
    DiagnosticIn,
    Entry,
    ErrorOut,
    PreparedOut,
    PrepareIn,
    StopIn,
)
from antiphon.shared_schemas.states import SessionKind
from support.recorder_conversations import LiveTalk, chunk, until_acknowledged, until_finished
from support.recorder_process import count, in_process
from support.turn_conversations import chat_request, chat_talk, half_duplex_talk, half_prepare

Talk = list[tuple[str, Entry]]
DUPLEX = PrepareIn(system_prompt="p", config=DuplexConfig(record=False), ref_audio=b"\0" * 64)
HALF = replace(half_prepare(), config=HalfDuplexConfig(record=False))
CHAT = replace(chat_request(), options=ChatOptions(record=False))

MEASURED = ("in", DiagnosticIn(metrics={"rtt": 3}))
PREPARED = ("out", PreparedOut(input_n=1, prompt_length=3))
REFUSED = (
    "out",
    ErrorOut(input_n=1, code="invalid_request_error", message="the prompt is too long"),
)
WILLING = PrepareIn(system_prompt="p" * 99, config=DuplexConfig(), ref_audio=b"\0" * 64)

AFTER_DIAGNOSTICS = pytest.param(
    SessionKind.OMNI_DUPLEX,
    [*[MEASURED] * 300, ("in", DUPLEX), PREPARED, ("in", chunk(1, frames=2))],
    id="omni_after_300_diagnostics",
)
ASKED_FOR_NOTHING = pytest.param(
    SessionKind.AUDIO_DUPLEX, [MEASURED, ("in", StopIn())], id="asked_for_nothing"
)
CASES = [
    AFTER_DIAGNOSTICS,
    ASKED_FOR_NOTHING,
    pytest.param(
        SessionKind.AUDIO_DUPLEX,
        [*(("in", WILLING), REFUSED, MEASURED, ("in", DUPLEX)), PREPARED, ("in", chunk(1))],
        id="asked_again_without_recording",
    ),
    pytest.param(
        SessionKind.AUDIO_DUPLEX,
        [*(("in", DUPLEX), REFUSED, ("in", WILLING)), PREPARED, ("in", chunk(1))],
        id="asked_again_with_recording",
    ),
    pytest.param(
        SessionKind.HALF_DUPLEX, [("in", HALF), *half_duplex_talk()[1:]], id="half_duplex"
    ),
    pytest.param(SessionKind.CHAT, [("in", CHAT), *chat_talk()[1:]], id="chat_with_images"),
]


@pytest.fixture
def sessions(quickly: RecorderSettings) -> Path:
    return quickly.data_dir / "sessions"


async def record_another_session(broker: Broker, sessions: Path) -> str:
    """Records another session from beginning to end, so the recorder had time for the first one."""
    talk = await LiveTalk.begin(broker)
    await talk.exchange(2)
    await talk.end()
    await until_finished(sessions.parent, talk)
    return talk.recording


def names(sessions: Path) -> list[str]:
    return [path.name for path in sessions.iterdir()]


@pytest.mark.parametrize(("kind", "entries"), CASES)
async def test_nothing_is_stored(
    broker: Broker, quickly: RecorderSettings, sessions: Path, kind: SessionKind, entries: Talk
) -> None:
    metrics = RecorderMetrics()
    async with in_process(quickly, metrics):
        talk = await LiveTalk.assigned(broker, kind=kind)
        await talk.say(entries)
        other = await record_another_session(broker, sessions)
        assert names(sessions) == [other]
        assert len(await talk.script()) == len(entries), "its worker and its edge still read them"
        await talk.end()
        await until_acknowledged(broker)
        assert await talk.script() == []
        assert await broker.recorder_progress.load(talk.ticket) is None
        assert names(sessions) == [other]
    assert count(metrics, "declined_sessions_total") == 1
    assert count(metrics, "recordings_total", state="complete") == 1


@pytest.mark.parametrize(("kind", "entries"), [AFTER_DIAGNOSTICS, ASKED_FOR_NOTHING])
async def test_a_session_that_ended_without_a_recorder_is_not_stored(
    broker: Broker, quickly: RecorderSettings, sessions: Path, kind: SessionKind, entries: Talk
) -> None:
    talk = await LiveTalk.assigned(broker, kind=kind)
    await talk.say(entries)
    await talk.end()
    await asyncio.sleep(0.3)
    async with in_process(quickly):
        other = await record_another_session(broker, sessions)
        await until_acknowledged(broker)
        assert names(sessions) == [other]
    assert await talk.script() == []


@pytest.mark.parametrize("noted", [False, None])
async def test_a_trimmed_refusal_is_read_from_the_row(
    broker: Broker, quickly: RecorderSettings, sessions: Path, noted: bool | None
) -> None:
    """Without a stored decision there is no recording."""
    talk = await LiveTalk.assigned(broker)
    await talk.into.append(DUPLEX)
    if noted is not None:
        await talk.note(DUPLEX.config)
    await broker._redis.call("XTRIM", broker.keys.inbound(talk.sid), "MAXLEN", 0)
    await talk.into.append(chunk(1))
    await talk.out.append(PreparedOut(input_n=1, prompt_length=3))
    async with in_process(quickly):
        other = await record_another_session(broker, sessions)
        await talk.end()
        await until_acknowledged(broker)
        assert names(sessions) == [other]


async def test_nothing_is_on_disk_while_the_client_may_still_refuse(
    broker: Broker, quickly: RecorderSettings, sessions: Path
) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.assigned(broker)
        await talk.say([("in", WILLING), REFUSED, MEASURED])
        first = await record_another_session(broker, sessions)
        assert names(sessions) == [first]
    async with in_process(quickly):  # another replica
        second = await record_another_session(broker, sessions)
        assert set(names(sessions)) == {first, second}
        await talk.say([("in", DUPLEX), PREPARED, ("in", chunk(1))])
        await talk.end()
        await until_acknowledged(broker)
        assert set(names(sessions)) == {first, second}


async def test_a_session_without_a_decision_is_waited_for(
    broker: Broker, quickly: RecorderSettings, sessions: Path
) -> None:
    async with in_process(quickly):
        talk = await LiveTalk.assigned(broker)
        await talk.into.append(DiagnosticIn(metrics={"rtt": 3}))
        await record_another_session(broker, sessions)
        assert talk.recording not in names(sessions)
        await talk.prepare()
        await talk.end()
        await until_finished(quickly.data_dir, talk)
