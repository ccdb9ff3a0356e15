"""When the frames of a call are looked at."""

import io
import threading
import time
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from antiphon.inference_worker.engines.local.dependencies import examine
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.sight import files, watch
from antiphon.inference_worker.engines.local.sight.reader import ReadingLimits
from antiphon.inference_worker.engines.local.sight.scene import Scene, Thing
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.local.sight.watch import Watch, differs, thumbnail_of
from antiphon.inference_worker.engines.types import EngineError
from antiphon.shared_schemas.findings import FindingStatus
from support.pictures import jpeg, photograph, sign

FRAME, OTHER = sign("Room 204"), sign("Room 205")


class CountingSight(Sight):
    """The queue of the real one, without its networks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.scene = Scene((Thing("cup"),))

    def look(self, picture: Image.Image, limits: ReadingLimits) -> Scene:
        self.looks += 1
        return self.scene


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return time.thread_time()


@pytest.fixture
def sight() -> Iterator[CountingSight]:
    counting = CountingSight()
    yield counting
    counting.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watch, "time", clock)
    return clock


def show(call: Watch, *frames: bytes) -> Scene | None:
    call.take(frames, 1.0)
    if call._work is not None:
        call._work.result()
    return call.scene


def test_a_frame_without_news_is_not_looked_at(sight: CountingSight, clock: Clock) -> None:
    call = Watch(cast("Sight", sight))
    assert show(call, FRAME) == sight.scene
    for _ in range(5):
        clock.now += 1
        show(call, FRAME)
        clock.now += 1
        show(call, jpeg(Image.open(_file(FRAME)), quality=70))  # other bytes, same picture
    assert sight.looks == 1
    clock.now += 1
    show(call, OTHER)
    assert sight.looks == 2


def test_a_camera_that_has_focused_shows_more(sight: CountingSight, clock: Clock) -> None:
    sharp = Image.open(_file(photograph("coffee"))).convert("RGB")
    blurred = sharp.filter(ImageFilter.GaussianBlur(1))
    assert not differs(thumbnail_of(jpeg(sharp)), thumbnail_of(jpeg(blurred)))
    call = Watch(cast("Sight", sight))
    for picture, looks in ((blurred, 1), (sharp, 2), (blurred, 2), (sharp, 2)):
        show(call, jpeg(picture))
        assert sight.looks == looks
        clock.now += 1


def test_at_most_one_look_per_second(sight: CountingSight, clock: Clock) -> None:
    call = Watch(cast("Sight", sight))
    pictures = [photograph(name) for name in ("cat", "coffee", "horse", "astronaut")]
    for place in range(40):
        show(call, pictures[place % 4])
        clock.now += 0.25
    assert 9 <= sight.looks <= 11


def test_a_look_that_costs_much_is_followed_by_a_pause(
    sight: CountingSight, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = iter(np.arange(0.0, 1000.0, 0.45).tolist())  # 0.45 s each: three seconds of 15 %
    monkeypatch.setattr(clock, "thread_time", lambda: next(spent))
    call = Watch(cast("Sight", sight))
    for place in range(30):
        show(call, (FRAME, OTHER)[place % 2])
        clock.now += 1.0
    assert 9 <= sight.looks <= 11


@pytest.mark.parametrize("seconds", [1.0, 0.2])
def test_the_scene_goes_when_the_camera_is_off(
    sight: CountingSight, clock: Clock, seconds: float
) -> None:
    """After three seconds: short units have a frame once a second too."""
    call = Watch(cast("Sight", sight))
    assert show(call, FRAME) is not None
    for _ in range(round(2 / seconds)):
        call.take((), seconds)
    assert call.scene is not None
    for _ in range(round(2 / seconds)):
        call.take((), seconds)
    assert (call.scene, call.is_behind) == (None, False)
    clock.now += 10
    assert show(call, FRAME) is not None
    assert sight.looks == 2


def test_news_are_told_for_a_while(sight: CountingSight, clock: Clock) -> None:
    call = Watch(cast("Sight", sight))
    show(call, FRAME)
    assert call.news == ""
    sight.scene = Scene((Thing("cup"), Thing("book")))
    clock.now += 1
    show(call, OTHER)
    assert call.news == "A book appeared."
    told = call.add_to([{"role": "user", "content": "Nice?"}])
    content = "(The camera shows a cup and a book. A book appeared.) Nice?"
    assert told == [{"role": "user", "content": content}]
    clock.now += 60
    assert call.news == ""


def test_a_small_model_is_told_what_a_question_may_be_about(
    sight: CountingSight, clock: Clock
) -> None:
    call = Watch(cast("Sight", sight), selective=True)
    show(call, FRAME)
    about, other = ({"role": "user", "content": text} for text in ("Is it hot?", "Who was Bach?"))
    assert call.add_to([about])[0]["content"] == "(The camera shows a cup.) Is it hot?"
    assert call.add_to([other]) == [other]
    sight.scene = Scene((Thing("book"),))
    clock.now += 1
    show(call, OTHER)
    assert call.add_to([about])[0]["content"] == "(The camera shows a book.) Is it hot?"
    news = {"role": "user", "content": "Has it changed?"}
    changed = "(The camera shows a book. A book appeared, and a cup disappeared.) Has it changed?"
    assert call.add_to([news])[0]["content"] == changed


def test_a_busy_sight_keeps_the_last_scene(sight: CountingSight, clock: Clock) -> None:
    call = Watch(cast("Sight", sight))
    show(call, FRAME)
    blocked = [sight._thread.submit(time.sleep, 0.2)]
    blocked += [sight._submit(lambda: None) for _ in range(4)]
    clock.now += 1
    call.take((OTHER,), 1.0)
    assert call._work is None
    assert call.scene == Scene((Thing("cup"),))
    late = Watch(cast("Sight", sight))
    late.take((FRAME,), 1.0)
    assert (late.scene, late.is_behind) == (None, True)
    for job in blocked:
        job.result()
    assert show(call, OTHER) is not None
    assert sight.looks == 2


def test_a_look_is_waited_for_once_and_only_while_it_runs(
    sight: CountingSight, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(watch, "wait", lambda _, seconds: waits.append(seconds))
    runs, ends = threading.Event(), threading.Event()

    def look(*_: object) -> Scene:
        runs.set()
        ends.wait(10)
        return sight.scene

    monkeypatch.setattr(sight, "look", look)
    call, other = Watch(cast("Sight", sight)), Watch(cast("Sight", sight))
    call.take((FRAME,), 0.2)
    other.take((FRAME,), 0.2)
    runs.wait()
    assert other.scene is None
    assert waits == [pytest.approx(0.02)]  # its look has not begun
    waits.clear()
    assert call.scene is None
    clock.now += 0.15
    assert call.scene is None
    clock.now += 0.15
    call.take((), 0.2)
    assert call.scene is None
    assert waits == [pytest.approx(one) for one in (0.02, 0.2, 0.02, 0.05)]
    ends.set()
    for one in (call, other):
        assert one._work is not None
        one._work.result()
        assert one.scene == sight.scene


def test_an_unreadable_frame_is_left_out(sight: CountingSight, clock: Clock) -> None:
    call = Watch(cast("Sight", sight))
    for nonsense in (b"", b"\xff\xd8\xff nonsense", FRAME[:300]):
        clock.now += 1
        show(call, nonsense)
    assert sight.looks == 0
    clock.now += 5
    assert show(call, FRAME) is not None


def test_a_network_that_is_lost_later_ends_no_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sight = Sight()
    assert sight._loaded is None  # no picture, no memory
    monkeypatch.setattr(files, "READER_PACKAGE", "rapidocr_that_is_not_there")
    call = Watch(sight)
    assert show(call, FRAME) is None
    assert "frame_not_seen" in capsys.readouterr().out
    with pytest.raises(EngineError, match="no longer sees"):
        sight.see(FRAME)
    sight.close()


def test_noise_and_exposure_are_no_change() -> None:
    picture = Image.open(_file(photograph("coffee"))).convert("RGB")
    before = thumbnail_of(jpeg(picture))
    noise = np.random.default_rng(1).normal(0, 6, (picture.height, picture.width, 3))
    noisy = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
    assert not differs(thumbnail_of(jpeg(noisy)), before)
    brighter = ImageEnhance.Brightness(picture).enhance(1.05)
    assert not differs(thumbnail_of(jpeg(brighter)), before)
    with_cup = picture.copy()
    with_cup.paste((240, 240, 240), (20, 20, 60, 60))
    assert differs(thumbnail_of(jpeg(with_cup)), before)
    assert differs(thumbnail_of(jpeg(Image.new("RGB", picture.size))), before)


def test_a_missing_or_changed_network_blinds_the_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = LocalOptions()
    assert [one.verdict for one in examine(options) if one.about == "sight"] == [FindingStatus.OK]
    monkeypatch.setitem(files.SHA256, files.DETECTOR, "0" * 64)
    assert Sight.load() is None
    monkeypatch.undo()
    monkeypatch.setattr(files, "READER_PACKAGE", "rapidocr_that_is_not_there")
    assert Sight.load() is None
    found = [one for one in examine(options) if one.about == "sight"]
    assert [one.verdict for one in found] == [FindingStatus.WARNING]
    assert "pip install --no-deps rapidocr==3.10.0" in found[0].found
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if "sight_unavailable" in line]
    assert ["detector.onnx" in told[0], "rapidocr" in told[1]] == [True, True]
    assert len(told) == 2


def _file(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)
