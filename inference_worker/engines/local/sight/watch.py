"""What one video call shows: looks at its frames, within limits."""

import re
import threading
import time
from concurrent.futures import Future, wait

import numpy as np
import structlog
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.pictures import grey_thumbnail, read_picture
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.sight.reader import CAMERA
from antiphon.inference_worker.engines.local.sight.scene import Scene
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.types import InputRefused

_INTERVAL_S = 1.0
_CORE_SHARE = 0.15
_JITTER_S = 0.3
"""Frames come once a second, sometimes a little early."""
_BLIND_S = 3.0
"""Seconds without a frame after which the camera counts as off."""
_LONGEST_WAIT_S = 0.2
"""For a look, from its frame on."""
_STARTS_WITHIN_S = 0.02
"""A look that nothing is before."""
_NEWS_S = 20.0

_SHARPER = 1.2
"""A frame of so many times the bytes shows details that a blurred one did not: the camera has focused."""
_CELLS = 40
_MOST_CHANGE, _MOST_BRIGHTER = 14, 30
"""Levels (of 256) by which a cell may change against the whole picture, and the whole picture."""

_ASKS_NEWS = re.compile(
    r"\b(?:chang|differ|new\b|news|appear|disappear|gone|went|came|happen|move|now\b)"
)

log = structlog.get_logger()

Thumbnail = NDArray[np.int16]


class Watch:
    """The newest scene of a call. A frame that shows nothing new is not looked at.

    The thread of the sight spends at most _CORE_SHARE of a core on this session. While it is busy with
    others, the last scene stays.
    """

    def __init__(self, sight: Sight, *, selective: bool = False) -> None:
        """`selective`: tell the model only what a question may be about; a small one mentions it always."""
        self._sight = sight
        self._selective = selective
        self._lock = threading.Lock()
        self._frame: bytes | None = None
        self._seen: bytes | None = None
        self._thumbnail: Thumbnail | None = None
        self._size = 0
        self._scene: Scene | None = None
        self._news = ""
        self._news_at = 0.0
        self._blind_s = 0.0
        self._due = self._wait_until = 0.0
        self._work: Future[None] | None = None

    def take(self, frames: tuple[bytes, ...], seconds: float) -> None:
        """The frames of the next unit, which has this length; only the newest one counts."""
        with self._lock:
            self._blind_s = 0.0 if frames else self._blind_s + seconds
            if frames:
                self._frame = frames[-1]
            elif self._blind_s > _BLIND_S:
                self._frame = self._seen = self._thumbnail = self._scene = None
                self._news = ""
            idle = self._work is None or self._work.done()
            if not idle or self._frame == self._seen or time.monotonic() < self._due:
                return
        self._wait_until = time.monotonic() + _LONGEST_WAIT_S
        self._work = self._sight.offer(self._look)

    @property
    def scene(self) -> Scene | None:
        """None while the camera is off. Waits a moment for a frame that is looked at now.

        A frame that waits for the pictures of others may take long: the last scene stays.
        """
        left = self._wait_until - time.monotonic()
        if self._work is not None and left > 0:
            wait([self._work], min(left, _STARTS_WITHIN_S))
            if self._work.running():
                wait([self._work], left)
        with self._lock:
            return self._scene

    @property
    def is_behind(self) -> bool:
        """True if the camera is on, but no frame has been looked at."""
        with self._lock:
            return self._frame is not None and self._scene is None

    @property
    def news(self) -> str:
        """What has changed a short time ago, as a sentence."""
        with self._lock:
            return self._news if time.monotonic() - self._news_at < _NEWS_S else ""

    def add_to(self, messages: list[LlmMessage]) -> list[LlmMessage]:
        """`messages` with the scene in the user's last one."""
        places = [place for place, one in enumerate(messages) if one["role"] == "user"]
        scene = self.scene
        if scene is None or not places:
            return messages
        asked = messages[places[-1]]
        if self._selective and not scene.concerns(asked["content"]):
            return messages
        tells_news = not self._selective or _ASKS_NEWS.search(asked["content"].lower())
        news = self.news if tells_news else ""
        description = " ".join(filter(None, [scene.sentence("The camera shows"), news]))
        changed = {**asked, "content": f"({description}) {asked['content']}"}
        return [*messages[: places[-1]], changed, *messages[places[-1] + 1 :]]

    def _look(self) -> None:
        """Runs on the thread of the sight."""
        begun, spent = time.monotonic(), time.thread_time()
        with self._lock:
            frame = self._frame
        try:
            if frame is not None:
                self._see(frame)
        except InputRefused as error:
            log.debug("frame_unreadable", error=str(error))
        except Exception as error:  # noqa: BLE001  # without a scene, the call continues
            log.error("frame_not_seen", error=f"{type(error).__name__}: {error}")  # noqa: TRY400
        cost = time.thread_time() - spent
        with self._lock:
            self._seen = frame
            spacing = max(_INTERVAL_S, cost / _CORE_SHARE)
            self._due = max(self._due, begun - _JITTER_S) + spacing

    def _see(self, frame: bytes) -> None:
        with self._lock:
            before, size = self._thumbnail, self._size
        thumbnail = thumbnail_of(frame)
        if before is None or differs(thumbnail, before) or len(frame) > _SHARPER * size:
            scene = self._sight.look(read_picture(frame), CAMERA)
            self._show(scene, thumbnail, len(frame))

    def _show(self, scene: Scene, thumbnail: Thumbnail, size: int) -> None:
        with self._lock:
            if self._frame is None:  # the camera has been switched off
                return
            news = scene.new_since(self._scene) if self._scene is not None else ""
            if news:
                self._news, self._news_at = news, time.monotonic()
            self._scene, self._thumbnail, self._size = scene, thumbnail, size


def thumbnail_of(frame: bytes) -> Thumbnail:
    """Raises InputRefused if the frame is unreadable."""
    return np.asarray(grey_thumbnail(frame, _CELLS)).astype(np.int16)


def differs(now: Thumbnail, before: Thumbnail) -> bool:
    """True if the picture shows something else. A camera's noise and exposure change it a little."""
    change = now - before
    brighter = np.median(change)
    return bool(abs(brighter) > _MOST_BRIGHTER or np.abs(change - brighter).max() > _MOST_CHANGE)
