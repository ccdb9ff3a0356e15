"""Sound files are decoded in processes that a hostile file cannot leave."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from antiphon.edge.media.sound_decoders import AT_ONCE, SoundDecoders
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.errors import InvalidInput
from support.hostile_sounds import hostile_sounds, much_work, sound_file
from support.stack import until

LONGEST_S = 600.0


@pytest.fixture
async def decoders() -> AsyncIterator[SoundDecoders]:
    made = SoundDecoders(cpu_s=2)
    yield made
    process = made._process
    await made.close()
    assert process is None or process.returncode is not None


@pytest.fixture(scope="module")
def mp3() -> bytes:
    return sound_file("mp3", "libmp3lame", 2)


async def seconds(decoders: SoundDecoders, data: bytes) -> float:
    return len(await decoders.read(data, "file", LONGEST_S)) / (2 * INPUT_RATE)


async def test_a_hostile_file_is_refused_and_the_next_one_is_read(
    decoders: SoundDecoders, mp3: bytes
) -> None:
    for name, (data, said) in hostile_sounds().items():
        with pytest.raises(InvalidInput, match=said) as refused:
            await decoders.read(data, "messages.0.content.0.input_audio.data", LONGEST_S)
        assert refused.value.message.startswith("messages.0.content.0.input_audio.data: "), name
    assert await seconds(decoders, mp3) == pytest.approx(2, abs=0.1)


async def test_a_file_that_takes_too_much_time_ends_its_decoder(
    decoders: SoundDecoders, mp3: bytes
) -> None:
    with pytest.raises(
        InvalidInput, match=r"file: the file cannot be decoded: .* convert it to WAV"
    ):
        await decoders.read(much_work(), "file", LONGEST_S)
    assert await seconds(decoders, mp3) == pytest.approx(2, abs=0.1)


async def test_a_crash_ends_one_file_only(decoders: SoundDecoders, mp3: bytes) -> None:
    """What a fault of FFmpeg does: the child dies of SIGSEGV. Its neighbour is read."""
    assert await seconds(decoders, mp3) > 1
    await children_of(decoders, 0)
    crashing = asyncio.create_task(decoders.read(much_work(), "file", LONGEST_S))
    [child] = await children_of(decoders)
    neighbour = asyncio.create_task(seconds(decoders, mp3))
    os.kill(child, signal.SIGSEGV)
    with pytest.raises(InvalidInput, match="cannot be decoded"):
        await crashing
    assert await neighbour == pytest.approx(2, abs=0.1)


async def test_the_process_is_started_again(decoders: SoundDecoders, mp3: bytes) -> None:
    assert await seconds(decoders, mp3) > 1
    first = decoders._process
    assert first is not None
    first.kill()
    await asyncio.to_thread(first.wait)
    assert await seconds(decoders, mp3) > 1
    assert decoders._process is not first


async def test_a_decoder_has_no_secrets_and_opens_nothing(
    decoders: SoundDecoders, mp3: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEYS", "the-key-of-somebody")
    assert await seconds(decoders, mp3) > 1
    process = decoders._process
    assert process is not None
    assert b"the-key" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    await children_of(decoders, 0)
    busy = asyncio.create_task(decoders.read(much_work(), "file", LONGEST_S))
    [child] = await children_of(decoders)
    limits = Path(f"/proc/{child}/limits")
    await until(lambda: limits_of(limits)["Max open files"] == "0")
    assert limits_of(limits)["Max cpu time"] == "2"
    assert limits_of(limits)["Max file size"] == "0"
    assert limits_of(limits)["Max data size"].isdigit()
    os.kill(child, signal.SIGKILL)
    with suppress(InvalidInput):
        await busy


async def test_clients_that_leave_do_not_make_room(decoders: SoundDecoders, mp3: bytes) -> None:
    """Otherwise one client could start any number of decoders."""
    assert await seconds(decoders, mp3) > 1
    await children_of(decoders, 0)
    left = [asyncio.create_task(decoders.read(much_work(), "file", LONGEST_S)) for _ in range(4)]
    await children_of(decoders, AT_ONCE)
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    assert len(await children_of(decoders, AT_ONCE)) == AT_ONCE


async def test_children_end_with_the_edge(mp3: bytes) -> None:
    decoders = SoundDecoders()
    assert await seconds(decoders, mp3) > 1
    await children_of(decoders, 0)
    busy = asyncio.create_task(decoders.read(much_work(), "file", LONGEST_S))
    [child] = await children_of(decoders)
    await decoders.close()
    await until(lambda: not runs(child))
    await asyncio.wait([busy])


def runs(pid: int) -> bool:
    """False for a process that has ended, also if nobody has asked for its status."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def limits_of(file: Path) -> dict[str, str]:
    """The soft limits."""
    return {line[:26].strip(): line[26:47].strip() for line in file.read_text().splitlines()}


async def children_of(decoders: SoundDecoders, count: int = 1) -> list[int]:
    process = decoders._process
    assert process is not None
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def found() -> list[int]:
        return [int(pid) for pid in file.read_text().split()]

    await until(lambda: len(found()) == count)
    return found()
