"""How many pictures and videos of a chat are looked at, and what they show together."""

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from antiphon.inference_worker.engines.common.video import VideoBudget
from antiphon.inference_worker.engines.local import chat
from antiphon.inference_worker.engines.local.chat import HistoryReader
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.pictures import MOST_PICTURES, Pictures
from antiphon.inference_worker.engines.local.sight.reader import ReadingLimits
from antiphon.inference_worker.engines.local.sight.scene import Scene, Thing
from antiphon.inference_worker.engines.local.sight.sight import Sight
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.content import (
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)
from support.video_files import video

CAT, CUP = Scene((Thing("cat"),)), Scene((Thing("cup"),), "espresso")
SIGN = Scene(text=("Room 204",))
SHOWN = {10: CAT, 20: CUP, 30: SIGN}
"""By the width of a picture."""


class WidthSight(Sight):
    """The memory of the real one, without its networks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def look(self, picture: Image.Image, limits: ReadingLimits) -> Scene:
        self.looks += 1
        return SHOWN.get(picture.width, CAT)


@pytest.fixture
def sight() -> Iterator[WidthSight]:
    made = WidthSight()
    yield made
    made.close()


def picture(width: int = 10, level: int = 0) -> ImagePart:
    file = io.BytesIO()
    Image.new("L", (width, 10), level).save(file, "PNG")
    return ImagePart(file.getvalue())


def asks(*parts: Part) -> ConversationMessage:
    return ConversationMessage(Role.USER, parts)


def reader_of(sight: Sight | None, *, hears_videos: bool = False) -> HistoryReader:
    def transcribe(speech: Samples) -> Transcript:
        return Transcript("Hello.")

    return HistoryReader(
        transcribe, VideoBudget(), Pictures(sight), sees=False, hears_videos=hears_videos
    )


def test_a_video_that_is_sent_again_is_not_decoded_again(
    sight: WidthSight, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = VideoPart(video(seconds=3))
    first = reader_of(sight).read([asks(clip)])
    assert sight.looks == 3
    monkeypatch.setattr(chat, "read_track", None)
    again = reader_of(sight)
    assert again.read([asks(clip), asks(TextPart("Thanks."))])[:2] == first
    assert sight.looks == 3
    assert again.pictures.newest == CAT


def test_the_sound_of_a_known_video_is_heard(sight: WidthSight) -> None:
    clip = VideoPart(video(seconds=3, sound=np.zeros(16_000, dtype=np.float32)))
    reader_of(sight).read([asks(clip)])
    _, heard = reader_of(sight, hears_videos=True).read([asks(clip)])
    assert heard["content"] == "(The video shows a cat.)\nHello."
    assert sight.looks == 3


def test_the_frames_of_a_video_are_not_added_up(sight: WidthSight) -> None:
    reader = reader_of(sight)
    reader.read([asks(VideoPart(video(seconds=3)), picture(), picture(30))])
    assert reader.pictures.newest == Scene((Thing("cat"), Thing("cat")), text=SIGN.text)


def test_only_the_newest_pictures_of_a_long_chat_are_looked_at(sight: WidthSight) -> None:
    messages = [asks(picture(level=level)) for level in range(MOST_PICTURES + 2)]
    reader = reader_of(sight)
    written = [message["content"] for message in reader.read(messages)[1:]]
    assert sight.looks == MOST_PICTURES
    assert written == ["(An older picture.)"] * 2 + ["(The picture shows a cat.)"] * MOST_PICTURES
    assert reader.pictures.newest == CAT
    reader_of(sight).read([*messages, asks(picture(20))])
    assert sight.looks == MOST_PICTURES + 1


def test_an_old_video_is_only_heard(sight: WidthSight) -> None:
    clip = VideoPart(video(seconds=1, sound=np.zeros(16_000, dtype=np.float32)))
    newer = [asks(picture(level=level)) for level in range(MOST_PICTURES)]
    written = reader_of(sight, hears_videos=True).read([asks(clip), *newer])
    assert written[1]["content"] == "(An older video.)\nHello."
    assert sight.looks == MOST_PICTURES


def test_too_many_pictures_in_the_last_message_are_refused_before_one_is_looked_at(
    sight: WidthSight,
) -> None:
    many = asks(*(picture(level=level) for level in range(MOST_PICTURES + 1)))
    with pytest.raises(UnsupportedContent, match=f"{MOST_PICTURES} pictures") as refused:
        reader_of(sight).read([asks(TextPart("Hello.")), many])
    assert (refused.value.field, sight.looks) == ("messages.1.content", 0)
    assert reader_of(sight).read([many, asks(TextPart("Hello."))])


@pytest.mark.parametrize(
    ("messages", "news"),
    [
        ([asks(picture())], "I have seen one picture only."),
        ([asks(picture(), picture(20))], "A cup and espresso appeared, and a cat disappeared."),
        ([asks(picture()), asks(picture(30))], "A cat disappeared, and the text now says: Room 204."),
        ([asks(picture()), asks(picture(level=9))], ""),
        ([asks(TextPart("Hello."))], ""),
    ],
)  # fmt: skip
def test_a_picture_is_compared_with_the_one_before(
    sight: WidthSight, messages: list[ConversationMessage], news: str
) -> None:
    reader = reader_of(sight)
    reader.read(messages)
    assert reader.pictures.news == news


def test_pictures_of_the_same_things_differ_in_colour(
    sight: WidthSight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHOWN, 20, Scene((Thing("cat", "black"),)))
    reader = reader_of(sight)
    reader.read([asks(picture(), picture(20))])
    assert reader.pictures.news == "First, I saw a cat. Then I saw a black cat."


def test_descriptions_are_not_the_words_of_the_user(sight: WidthSight) -> None:
    reader = reader_of(sight)
    answered = ConversationMessage(Role.ASSISTANT, (TextPart("I see a sign."),))
    messages = [
        asks(picture(30), TextPart("What does it say?")),
        answered,
        asks(picture(30)),
        answered,
        asks(TextPart("What did I say?")),
    ]
    history = reader.read(messages)
    assert "Room 204" in history[1]["content"]
    said = reader.own_words(history)
    assert [message["content"] for message in said if message["role"] == "user"] == [
        "What does it say?",
        "What did I say?",
    ]
    assert said[-1] == history[-1]
    [asked] = reader_of_one(sight, asks(picture(30), TextPart(" ")))
    assert asked["content"] == "What do you see?"


def reader_of_one(sight: Sight, message: ConversationMessage) -> list[dict[str, object]]:
    reader = reader_of(sight)
    return reader.own_words(reader.read([message]))[1:]


def test_a_message_with_a_picture_stays_one_for_a_model_that_sees() -> None:
    reader = HistoryReader(
        lambda _: Transcript(""), VideoBudget(), Pictures(None), sees=True, hears_videos=False
    )
    messages = [asks(picture(), TextPart("What is it?")), asks(picture(), TextPart("And this?"))]
    said = reader.own_words(reader.read(messages))
    assert said[1]["content"] == "What is it?"
    assert [part["type"] for part in said[2]["content"]] == ["image_url", "text"]
