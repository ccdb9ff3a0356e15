"""Pictures in messages to the language model: as they are, in the form of OpenAI's API, or in words."""

import functools
from typing import Any

import pybase64

from antiphon.inference_worker.engines.common.video import VideoBudget, frames_at
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.sight.scene import Scene
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.types import InputRefused, UnsupportedContent

_MAGIC = ((b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))

_FRAMES = 3
"""Frames of a video that are looked at."""

_BLIND_S = 3.0
"""Seconds without a frame after which the newest one is no longer what the user shows."""


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture_part(data: bytes) -> dict[str, Any]:
    """A JPEG, PNG or WebP file as a data URL."""
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "image/jpeg")
    url = f"data:{kind};base64,{pybase64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


class Pictures:
    """Describes the pictures of a request to a model that takes none."""

    def __init__(self, sight: Sight | None) -> None:
        self._sight = sight
        self._message: list[Scene] = []
        self._new = True

    @property
    def sees(self) -> bool:
        return self._sight is not None

    @property
    def newest(self) -> Scene | None:
        """All that the last message with pictures shows."""
        return functools.reduce(Scene.joined_with, self._message) if self._message else None

    def begin_message(self) -> None:
        self._new = True

    def _keep(self, scene: Scene) -> Scene:
        if self._new:
            self._message, self._new = [], False
        self._message.append(scene)
        return scene

    def describe(self, data: bytes, field: str) -> str:
        """Raises UnsupportedContent if the engine does not see, or if the file is unreadable."""
        if self._sight is None:
            raise UnsupportedContent("the local engine does not see images", field)
        try:
            scene = self._keep(self._sight.see(data))
        except InputRefused as error:
            raise UnsupportedContent(f"{field}: {error}", field) from error
        return f"({scene.sentence('The picture shows')})"

    def describe_video(self, data: bytes, seconds: float, budget: VideoBudget | None) -> str:
        """What some frames show, in their order. Empty if the engine does not see."""
        if self._sight is None:
            return ""
        scenes = []
        for _, picture in frames_at(data, _times(seconds), budget):
            scene = self._keep(self._sight.see_picture(picture))
            scenes.append(scene.sentence("shows"))
        story = " Then it ".join(dict.fromkeys(scenes))
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
