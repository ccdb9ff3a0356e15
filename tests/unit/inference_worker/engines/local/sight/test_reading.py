"""How much of a picture is read, with the real networks."""

import io

import pytest
from PIL import Image, ImageDraw, ImageFont

from antiphon.inference_worker.engines.local.sight.reader import PICTURE, Area, Reader
from antiphon.inference_worker.engines.local.sight.scene import quoted
from support.pictures import sign

pytestmark = pytest.mark.speech

LINE = "The quick brown fox jumps over the lazy dog and goes home to eat"
UNKNOWN = "Быстрая коричневая лиса прыгает через ленивую собаку и идет домой"
"""In letters that the network does not know."""


class CountingReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.lines = 0

    def _read_area(self, picture: Image.Image, area: Area, scale: float) -> str:
        self.lines += 1
        return super()._read_area(picture, area, scale)


def page(line: str) -> Image.Image:
    image = Image.new("RGB", (900, 1300), "white")
    font = ImageFont.load_default(24)
    for top in range(30, 1250, 40):
        ImageDraw.Draw(image).text((30, top), line, fill="black", font=font)
    return image


@pytest.mark.parametrize(("line", "most"), [(LINE, 4), (UNKNOWN, 8)])
def test_only_the_beginning_of_a_page_is_read(line: str, most: int) -> None:
    """No more than is said of it, whether the letters are known or not."""
    reader = CountingReader()
    read = reader.read(page(line), PICTURE)
    assert 1 <= reader.lines <= most
    if line == LINE:
        assert quoted(read) == quoted([LINE] * 30)


def test_all_that_is_said_of_a_sign_is_read() -> None:
    """Wide letters in many lines are no page."""
    lines = [f"EXIT {number} WM" for number in range(10, 18)]
    picture = Image.open(io.BytesIO(sign("\n".join(lines), size=26)))
    assert " ".join(Reader().read(picture, PICTURE)).split() == " ".join(lines).split()
