"""The Python programs that the documents print, and those in examples/, pass a strict type checker."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.document_commands import ROOT, blocks

OTHERS = ("livekit_agent.py", "pipecat_bot.py")
"""Their packages are in another environment: tests/system/stack/test_other_clients.py."""


@pytest.mark.extended
def test_the_programs_have_no_type_errors(tmp_path: Path) -> None:
    count = Counter[str]()
    for document, language, text in blocks():
        if language == "python":
            count[document] += 1
            module = document.replace("/", "_").replace(".", "_").replace("-", "_")
            (tmp_path / f"{module}_{count[document]}.py").write_text(text)
    examples = [path for path in (ROOT / "examples").glob("*.py") if path.name not in OTHERS]
    programs = [*tmp_path.glob("*.py"), *examples]
    assert len(count) > 4
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *programs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
