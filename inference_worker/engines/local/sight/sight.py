"""The loaded networks, the one thread that runs them, and what they make of a picture."""

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from PIL import Image

from antiphon.inference_worker.engines.common.pictures import read_picture
from antiphon.inference_worker.engines.local.sight.colours import colour_of, colours_of
from antiphon.inference_worker.engines.local.sight.files import SHA256, find_network
from antiphon.inference_worker.engines.local.sight.reader import (
    PICTURE,
    Reader,
    ReadingLimits,
)
from antiphon.inference_worker.engines.local.sight.scene import Scene, Thing
from antiphon.inference_worker.engines.local.sight.things import Classifier, Detector, Found
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError

ResultT = TypeVar("ResultT")

_SIDE = 640
_MOST_WAITING = 4
_REMEMBERED = 64
_PETS = frozenset({"cat", "dog"})
_NOT_DRAWN = frozenset((
    "frisbee", "ball", "donut", "orange", "apple", "clock", "kite", "refrigerator", "book", "TV", "laptop",
    "toilet", "umbrella", "tie", "cell phone", "remote control", "stop sign", "traffic light",
    "baseball bat", "toothbrush",
))  # fmt: skip
"""The detector takes drawn circles and rectangles for these."""
_MANY_COLOURS = frozenset((
    "person", "cup", "bowl", "table", "bed", "TV", "laptop", "clock", "plant", "pizza", "cake", "sandwich",
    "donut", "wine glass", "hot dog", "parking meter",
))  # fmt: skip
"""Their colour is that of what they contain, wear or show."""

log = structlog.get_logger()


class _Networks:
    """All networks; they take 0.4 s to load."""

    def __init__(self) -> None:
        self.detector = Detector()
        self.classifier = Classifier()
        self.reader = Reader()


class Sight:
    """Safe to use from any thread. One thread looks at the pictures of all sessions, one after another.

    The networks are loaded for the first picture: without one they take no memory.
    """

    def __init__(self) -> None:
        """Raises EngineLoadError if a network is missing or is not the pinned one."""
        for name in SHA256:
            find_network(name)
        self._loaded: _Networks | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-sight")
        self._waiting = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, bytes], tuple[Scene, ...]] = OrderedDict()

    @classmethod
    def load(cls) -> "Sight | None":
        """None if the engine cannot see; a line in the log says why."""
        try:
            return cls()
        except EngineLoadError as error:
            log.warning("sight_unavailable", error=str(error))
            return None

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def offer(self, work: Callable[[], None]) -> Future[None] | None:
        """Run `work` on the thread of the sight, unless too much waits for it."""
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                return None
        return self._submit(work)

    def see(self, data: bytes) -> Scene:
        """What a file shows; waits for other sessions. Raises InputRefused if it is unreadable."""

        def look() -> Scene:
            return self.look(read_picture(data), PICTURE)

        [scene] = self._remembered("picture", data, lambda: [self._submit(look).result()])
        return scene

    def see_video(
        self, data: bytes, frames: Callable[[], Iterable[Image.Image]]
    ) -> tuple[Scene, ...]:
        """Like `see`, for the `frames` of a video. Those of a known one are not decoded again."""
        return self._remembered(
            "video",
            data,
            lambda: [
                self._submit(functools.partial(self.look, frame, PICTURE)).result()
                for frame in frames()
            ],
        )

    def look(self, picture: Image.Image, limits: ReadingLimits) -> Scene:
        """Run all networks, on the thread of the sight."""
        networks = self._loaded = self._loaded or _load()
        text = networks.reader.read(picture, limits)
        picture = picture.copy()
        picture.thumbnail((_SIDE, _SIDE))
        colours = colours_of(picture)
        found = networks.detector.find(picture)
        if colours.drawn:
            found = [one for one in found if one.name not in _NOT_DRAWN]
        kind = "" if colours.flat or text else networks.classifier.name(picture)
        found = [_corrected(one, kind) for one in found]
        found.sort(key=lambda one: -one.box.area)
        things = tuple(
            Thing(one.name, "" if one.name in _MANY_COLOURS else colour_of(picture, one.box))
            for one in found
        )
        return Scene(things, kind, text, colours.ground, colours.subject, colours.dark)

    def _remembered(
        self, kind: str, data: bytes, look: Callable[[], Iterable[Scene]]
    ) -> tuple[Scene, ...]:
        """A chat sends its files again with each message, so what the newest ones show is kept."""
        key = kind, hashlib.sha256(data).digest()
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        scenes = tuple(look())
        with self._lock:
            self._known[key] = scenes
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return scenes

    def _submit(self, work: Callable[[], ResultT]) -> Future[ResultT]:
        with self._lock:
            self._waiting += 1
        made = self._thread.submit(work)
        made.add_done_callback(self._finished)
        return made

    def _finished(self, _: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1


def _load() -> _Networks:
    try:
        return _Networks()
    except EngineLoadError as error:  # the files were there when the engine started
        raise EngineError(f"the engine no longer sees: {error}") from error


def _corrected(found: Found, kind: str) -> Found:
    """The classifier tells cats from dogs better than the detector."""
    return found._replace(name=kind) if {found.name, kind} <= _PETS else found
