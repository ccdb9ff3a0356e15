"""A chat's messages as the language model is to read them: words, and speech written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.inference_worker.engines.common.video import InvalidVideo, VideoBudget, decode_video
from antiphon.inference_worker.engines.local.dialogue import STYLE_HINT
from antiphon.inference_worker.engines.local.dialogue import Message as Said
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)

Hearing = Callable[[Samples], str]

_NO_SYSTEM = f"You are a helpful assistant. {STYLE_HINT}"


def read_history(
    messages: Sequence[ConversationMessage],
    hear: Hearing,
    *,
    omni_mode: bool,
    videos: VideoBudget | None = None,
) -> list[Said]:
    """Chat messages for the model; where the client gives no system message, one of ours is first.

    Where `omni_mode` asks for it, a video is represented by its sound alone; audio in a system
    message is a voice to imitate and is left out. `videos` is what all of them together may cost.
    Raises UnsupportedContent, naming the part, for every other picture.
    """
    films = (videos or VideoBudget()) if omni_mode else None
    said = [_said(index, message, hear, films) for index, message in enumerate(messages)]
    if all(message.role is not Role.SYSTEM for message in messages):
        said.insert(0, {"role": "system", "content": _NO_SYSTEM})
    return said


def sounds_in(messages: Sequence[ConversationMessage]) -> int:
    """How many parts have to be listened to."""
    return sum(
        isinstance(part, AudioPart | VideoPart) and not _is_voice(message, part)
        for message in messages
        for part in message.parts
    )


def _is_voice(message: ConversationMessage, part: Part) -> bool:
    return message.role is Role.SYSTEM and isinstance(part, AudioPart)


def _said(
    index: int, message: ConversationMessage, hear: Hearing, films: VideoBudget | None
) -> Said:
    words = [
        _words(part, f"messages.{index}.content.{place}", hear, films)
        for place, part in enumerate(message.parts)
        if not _is_voice(message, part)
    ]
    return {"role": str(message.role), "content": "\n".join(word for word in words if word)}


def _words(part: Part, where: str, hear: Hearing, films: VideoBudget | None) -> str:
    match part:
        case TextPart(text):
            return text
        case AudioPart():
            return hear(part.samples())
        case ImagePart():
            raise UnsupportedContent("the local engine does not see images", where)
        case VideoPart(data):
            return hear(_sound(data, where, films))


def _sound(data: bytes, where: str, films: VideoBudget | None) -> Samples:
    """`films` is None where videos are not to be heard."""
    if films is None:
        text = "the local engine does not see videos; with omni_mode it hears their sound"
        raise UnsupportedContent(text, where)
    try:
        audio = decode_video(data, with_frames=False, budget=films).audio
    except InvalidVideo as error:
        raise UnsupportedContent(str(error), where) from error
    if not len(audio):
        text = "the local engine does not see, and this video has no sound"
        raise UnsupportedContent(text, where)
    return audio
