"""The programs in the documents run as they are printed, against an edge and the engine `simulated`."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from antiphon import Client
from antiphon.shared_schemas.recording import RecordingState
from antiphon.shared_schemas.recording_list import RecordingQuery
from support.page_scripts import NODE
from support.redis_server import wait_until
from support.stack import Stack, new_stack

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
QUESTION = ROOT / "antiphon" / "cli" / "assets" / "question.wav"
PROGRAMS = {"python": (sys.executable, ".py"), "js": (str(NODE), ".mjs")}
SNIPPET = re.compile(r"^```(python|js)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ELSEWHERE = ("write-an-engine.md",)
"""Its programs run in tests/unit/inference_worker/engines/test_registry.py."""
DOCUMENTS = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if path.name not in ELSEWHERE and SNIPPET.search(path.read_text())
]


@pytest.fixture(scope="module")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("snippets")) as running:
        running.edge()
        running.recorder()
        running.worker(slots=16, engine_options='{"cycle_units": 4}')
        client = Client(running.ws_url)
        client.ask(QUESTION)
        complete = RecordingQuery(state=RecordingState.COMPLETE)
        wait_until(lambda: client.recordings.list(complete).sessions, within_s=60, every_s=0.1)
        yield running


async def _run(kind: str, program: str, folder: Path) -> str:
    """The output of a program that ends with status 0."""
    interpreter, suffix = PROGRAMS[kind]
    folder.mkdir()
    shutil.copy(QUESTION, folder / "question.wav")
    Image.new("RGB", (64, 48)).save(folder / "photo.jpg")
    (folder / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    path = folder / f"program{suffix}"
    path.write_text(program)
    process = await asyncio.create_subprocess_exec(
        interpreter,
        path,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, f"{program}\n{output}"
    return output


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
async def test_snippets_run(running_stack: Stack, tmp_path: Path, path: Path) -> None:
    here = running_stack.http_url.removeprefix("http://")
    snippets = SNIPPET.findall(path.read_text().replace("127.0.0.1:8006", here))
    runs = [_run(*snippet, tmp_path / str(n)) for n, snippet in enumerate(snippets)]
    # A failure must not leave the other programs running.
    for output in await asyncio.gather(*runs, return_exceptions=True):
        if isinstance(output, BaseException):
            raise output
        assert output.strip()
        assert "rror" not in output, output
