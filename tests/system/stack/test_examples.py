"""The programs in examples/ against a whole stack, with the engine `local` where the words count."""

import os
import re
import shutil
import subprocess
import sys
from asyncio import to_thread
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from antiphon.shared_schemas.audio import OUTPUT_RATE
from support.page_scripts import NODE
from support.stack import Stack, new_stack, until

pytestmark = [pytest.mark.extended, pytest.mark.speech]

ROOT = Path(__file__).parents[3]
QUESTION = ROOT / "antiphon" / "cli" / "assets" / "question.wav"

_SOUND_CARD = '''
"""Stands for the package of the same name: this machine has no sound card."""

import threading
import wave

import numpy as np

with wave.open({question!r}) as file:
    ASKED = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


class InputStream:
    def __init__(self, callback, samplerate, blocksize, **_):
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(callback, blocksize))

    def run(self, callback, size):
        start = 0
        while not self.stopped.wait(size / 16000):
            block = ASKED[start : start + size]
            callback(np.pad(block, (0, size - len(block)))[:, None], size, None, None)
            start += size

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *exc):
        self.stopped.set()


class OutputStream:
    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def write(self, samples):
        print("played", len(samples), flush=True)
        raise KeyboardInterrupt
'''


QUICK = '{"cycle_units": 6, "listen_ms": 5, "speak_ms": 5, "answer_pieces": 5}'


@pytest.fixture(scope="module")
def quick_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Its answers are short. That of the local engine has words, which few programs need."""
    with new_stack(tmp_path_factory.mktemp("quick")) as running:
        running.edge()
        running.recorder()
        running.worker(engine_options=QUICK, slots=2)
        yield running


async def _run(
    program: str, *arguments: str, folder: Path, url: str, last: Sequence[str] = ()
) -> str:
    """The output of an example that ends with status 0."""
    interpreter = str(NODE) if program.endswith(".mjs") else sys.executable
    done = await to_thread(
        subprocess.run,
        [interpreter, str(ROOT / "examples" / program), *arguments, url, *last],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_ask_file(local_stack: Stack, tmp_path: Path) -> None:
    printed = await _run("ask_file.py", str(QUESTION), folder=tmp_path, url=local_stack.ws_url)
    assert "saved in reply.wav, recorded as " in printed
    speech, rate = soundfile.read(tmp_path / "reply.wav")
    assert (rate, len(speech) > rate / 4) == (OUTPUT_RATE, True)
    assert np.abs(speech).max() > 0.01


async def test_the_snippet_of_the_readme(local_stack: Stack, tmp_path: Path) -> None:
    [snippet] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "snippet.py"
    program.write_text(snippet.replace("ws://127.0.0.1:8006", local_stack.ws_url))
    (tmp_path / "antiphon").symlink_to(ROOT / "antiphon")
    printed = await _run(str(program), folder=tmp_path, url="")
    assert printed.strip()
    assert (tmp_path / "reply.wav").stat().st_size > 10_000


async def test_conversation(quick_stack: Stack, tmp_path: Path) -> None:
    printed = await _run("conversation.py", str(QUESTION), folder=tmp_path, url=quick_stack.ws_url)
    assert "1.0 s listening" in printed
    assert " speaking: " in printed


async def test_camera(quick_stack: Stack, tmp_path: Path) -> None:
    Image.new("RGB", (640, 360), "red").save(tmp_path / "red.jpg")
    arguments = (str(QUESTION), str(tmp_path / "red.jpg"))
    printed = await _run("camera.py", *arguments, folder=tmp_path, url=quick_stack.ws_url)
    assert "speaking: " in printed
    recording = quick_stack.data_dir / "sessions" / printed.split()[-1]
    await until(lambda: list(recording.rglob("*.jpg")), within_s=60)


async def test_chat(quick_stack: Stack, tmp_path: Path) -> None:
    for program in ("chat.py", "chat.mjs"):
        url = quick_stack.ws_url
        printed = await _run(program, "Say hello.", folder=tmp_path, url=url)
        answer, recorded = printed.rsplit("\n", 2)[0:2]
        assert answer.strip()
        assert recorded.startswith("recorded as ")


@pytest.mark.parametrize("version", ["1", "2"])
async def test_realtime(quick_stack: Stack, tmp_path: Path, version: str) -> None:
    url = quick_stack.ws_url
    printed = await _run("realtime.py", str(QUESTION), folder=tmp_path, url=url, last=[version])
    assert "listening" in printed
    assert "speaking: " in printed


async def test_realtime_in_javascript(quick_stack: Stack, tmp_path: Path) -> None:
    printed = await _run("realtime.mjs", str(QUESTION), folder=tmp_path, url=quick_stack.ws_url)
    *_, speaking, closed = printed.splitlines()
    assert speaking.startswith("speaking: ")
    assert float(closed.split()[0]) > 0.3  # seconds of speech
    assert closed.endswith("closed: client_closed")


async def test_realtime_chat(quick_stack: Stack, tmp_path: Path) -> None:
    questions = ("Who are you?", "And I?")
    printed = await _run("realtime_chat.mjs", *questions, folder=tmp_path, url=quick_stack.ws_url)
    *answers, closed = printed.strip().splitlines()
    assert len(answers) == 2
    assert closed == "closed: client_closed"


async def test_microphone(local_stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text(_SOUND_CARD.format(question=str(QUESTION)))
    printed = await _run("microphone.py", folder=tmp_path, url=local_stack.ws_url)
    assert "played " in printed


@pytest.mark.parametrize(
    "program",
    [
        *("ask_file.py", "realtime.py", "realtime_chat.mjs"),
    ],
)
def test_without_arguments_a_program_shows_them(program: str) -> None:
    interpreter = str(NODE) if program.endswith(".mjs") else sys.executable
    path = ROOT / "examples" / program
    done = subprocess.run([interpreter, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"examples/{program} " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["chat.mjs", "realtime.mjs", "realtime_chat.mjs", "talk.mjs"])
def test_a_program_in_javascript_says_in_one_line_what_is_missing(
    program: str, tmp_path: Path
) -> None:
    path = ROOT / "examples" / program
    if program == "talk.mjs":
        page = (ROOT / "docs" / "javascript-client.md").read_text()
        path = tmp_path / program
        path.write_text(page.split("```js\n")[1].split("```")[0].replace("8006", "1"))
        shutil.copy(QUESTION, tmp_path / "question.wav")
    for flag, words in (
        ("--no-experimental-websocket", "needs Node.js 22 or newer"),
        ("--no-warnings", "cannot connect"),
    ):
        command = [str(NODE), flag, str(path), str(QUESTION), "ws://127.0.0.1:1"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith(words)


def test_before_node_22_a_program_uses_the_package_ws(tmp_path: Path) -> None:
    """Then there is no WebSocket: `--no-experimental-websocket` takes it away."""
    shutil.copy(ROOT / "examples" / "chat.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    command = [
        NODE,
        "--no-experimental-websocket",
        tmp_path / "chat.mjs",
        "Hello",
        "ws://127.0.0.1:1",
    ]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0][:14]) == (1, "cannot connect")


@pytest.mark.parametrize(
    ("program", "package"), [("microphone.py", "sounddevice"), ("camera.py", "cv2")]
)
def test_a_missing_package_is_named_in_one_line(program: str, package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('no {package}')")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / program), str(QUESTION), "0", "ws://127.0.0.1:1"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"no {package}: run `pip install ")


CALL_ELEMENT_TEST = Path(__file__).parents[2] / "browser" / "test_call_element.py"
OTHER_CLIENTS_TEST = Path(__file__).with_name("test_other_clients.py")


def test_every_example_is_listed_and_tested() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    files = (Path(__file__), CALL_ELEMENT_TEST, OTHER_CLIENTS_TEST)
    tests = "".join(file.read_text() for file in files)
    for program in (ROOT / "examples").glob("*.*"):
        if program.suffix != ".md":
            assert f"examples/{program.name}" in listed
            assert f'"{program.name}"' in tests
