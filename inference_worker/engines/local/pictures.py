"""Pictures in messages to the language model: as they are, in the form of OpenAI's API, or in words."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image

from antiphon.inference_worker.engines.common.pictures import picture_part
from antiphon.inference_worker.engines.common.video import VideoBudget, frames_at
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.sight.scene import Scene
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.types import InputRefused, UnsupportedContent

_FRAMES = 3
"""Frames of a video that are looked at."""

MOST_PICTURES = 32
"""Pictures and videos of a chat that are looked at, the newest ones; the sight remembers more."""

_ONE_PICTURE = "I have seen one picture only."

_BLIND_S = 3.0
"""Seconds without a frame after which the newest one is no longer what the user shows."""


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


class Pictures:
    """Describes the pictures of a request to a model that takes none."""

    def __init__(self, sight: Sight | None) -> None:
        self._sight = sight
        self._too_old = 0
        self._shown: list[Scene] = []
        self._message = 0
        self._new = True

    @property
    def sees(self) -> bool:
        return self._sight is not None

    @property
    def newest(self) -> Scene | None:
        """All that the last message with pictures shows."""
        shown = self._shown[self._message :]
        return functools.reduce(Scene.joined_with, shown) if shown else None

    @property
    def news(self) -> str:
        """How the last picture differs from the one before, as one or two sentences. Empty if it does not."""
        if len(self._shown) < 2:
            return _ONE_PICTURE if self._shown else ""
        before, last = self._shown[-2:]
        if before.sentence("") == last.sentence(""):
            return ""
        both = f"{before.sentence('First, I saw')} {last.sentence('Then I saw')}"
        return last.named.new_since(before.named) or both

    @property
    def in_message(self) -> bool:
        """Whether a picture of this message has been looked at."""
        return not self._new

    def begin_message(self) -> None:
        self._new = True

    def leave_out(self, count: int) -> None:
        """Do not look at the first `count` pictures and videos."""
        self._too_old = count

    def _is_too_old(self) -> bool:
        self._too_old -= 1
        return self._too_old >= 0

    def _keep(self, scene: Scene) -> Scene:
        if self._new:
            self._message, self._new = len(self._shown), False
        self._shown.append(scene)
        return scene

    def describe(self, data: bytes, field: str) -> str:
        """Raises UnsupportedContent if the engine does not see, or if the file is unreadable."""
        if self._sight is None:
            raise UnsupportedContent("the local engine does not see images", field)
        if self._is_too_old():
            return "(An older picture.)"
        try:
            scene = self._keep(self._sight.see(data))
        except InputRefused as error:
            raise UnsupportedContent(f"{field}: {error}", field) from error
        return f"({scene.sentence('The picture shows')})"

    def describe_video(
        self, data: bytes, seconds: Callable[[], float], budget: VideoBudget | None
    ) -> str:
        """What some frames show, in their order. Empty if the engine does not see.

        `seconds` measures the video; a known one is not measured again.
        """
        if self._sight is None:
            return ""
        if self._is_too_old():
            return "(An older video.)"

        def frames() -> Iterator[Image.Image]:
            return (frame for _, frame in frames_at(data, _times(seconds()), budget))

        scenes = self._sight.see_video(data, frames)
        if scenes:
            self._keep(functools.reduce(Scene.merged_with, scenes))
        story = " Then it ".join(dict.fromkeys(scene.sentence("shows") for scene in scenes))
        return f"(The video {story})" if story else ""


def _times(seconds: float) -> list[float]:
    """In the middle of equal parts of a video."""
    return [seconds * (2 * part + 1) / (2 * _FRAMES) for part in range(_FRAMES)]


class NewestFrame:
    """The newest frame of a video call."""

    def __init__(self) -> None:
        self._frame: bytes | None = None
        self._blind_s = 0.0

    def take(self, frames: tuple[bytes, ...], seconds: float) -> None:
        """The frames of the next unit, which has this length."""
        self._blind_s = 0.0 if frames else self._blind_s + seconds
        if frames:
            self._frame = frames[-1]
        elif self._blind_s > _BLIND_S:
            self._frame = None

    def add_to(self, messages: list[LlmMessage]) -> list[LlmMessage]:
        """`messages` with the frame in the user's last one."""
        places = [place for place, one in enumerate(messages) if one["role"] == "user"]
        if self._frame is None or not places:
            return messages
        asked = messages[places[-1]]
        parts = [text_part(asked["content"]), picture_part(self._frame)]
        changed = {**asked, "content": parts}
        return [*messages[: places[-1]], changed, *messages[places[-1] + 1 :]]
