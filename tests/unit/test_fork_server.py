"""The fork server of the tests starts modules of PYTHONPATH too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.fork_server import ForkServer


def test_a_module_of_the_python_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_service.py").write_text("def main():\n    print('started')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output = tmp_path / "output"
    server = ForkServer()
    started = server.start("a_service", folder=tmp_path, environment={**os.environ}, output=output)
    assert started.wait(timeout=60) == 0
    assert output.read_text() == "started\n"
    server.close()
