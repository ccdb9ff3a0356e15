"""Ask about a camera's pictures: python examples/camera.py QUESTION.wav CAMERA [URL]

CAMERA is the number of a camera, such as 0 (needs `pip install opencv-python`), or a JPEG file.
"""

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from antiphon import connect_duplex
from antiphon.client.sound import load_wav


def camera(name: str) -> Callable[[], list[bytes]]:
    """Takes the JPEG pictures of one second."""
    if not name.isdigit():
        picture = Path(name).read_bytes()
        return lambda: [picture]
    try:
        cv2 = import_module("cv2")
    except ImportError as error:
        sys.exit(f"{error}: run `pip install opencv-python`")
    device = cv2.VideoCapture(int(name))
    if not device.isOpened():
        sys.exit(f"camera {name} cannot be opened; is it connected, and not used elsewhere?")

    def shoot() -> list[bytes]:
        read, image = device.read()
        return [cv2.imencode(".jpg", image)[1].tobytes()] if read else []

    return shoot


async def main(question: str, name: str, url: str = "ws://127.0.0.1:8006") -> None:
    shoot = camera(name)
    async with connect_duplex(url, video=True) as session:
        await session.wait_for_turn()
        await session.prepare("Describe what you see.")
        async for unit in session.converse(load_wav(Path(question)), frames=shoot):
            print("listening" if unit.is_listen else f"speaking: {unit.text}")
            if unit.end_of_turn:
                break
    print("recorded as", session.recording_id)


if len(sys.argv) < 3:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
