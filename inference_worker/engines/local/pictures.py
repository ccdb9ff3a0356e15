"""Pictures in messages to a language model that sees, in the form of OpenAI's API."""

from __future__ import annotations

from typing import Any

import pybase64

from antiphon.inference_worker.engines.local.dialogue import LlmMessage

_MAGIC = ((b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))

_BLIND_UNITS = 3
"""Units without a frame after which the newest one is no longer what the user shows."""


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture_part(data: bytes) -> dict[str, Any]:
    """A JPEG, PNG or WebP file as a data URL."""
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "image/jpeg")
    url = f"data:{kind};base64,{pybase64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


class NewestFrame:
    """The newest frame of a video call."""

    def __init__(self) -> None:
        self._frame: bytes | None = None
        self._blind = 0

    def take(self, frames: tuple[bytes, ...]) -> None:
        """The frames of the next unit."""
        self._blind = 0 if frames else self._blind + 1
        if frames:
            self._frame = frames[-1]
        elif self._blind > _BLIND_UNITS:
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
