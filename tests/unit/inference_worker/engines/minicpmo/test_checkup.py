"""The check-up of a folder that holds no checkpoint names one cause and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.inference_worker.engines.minicpmo.checkup import examine
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.shared_schemas.findings import FindingStatus


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent", "there is no folder {}; correct --model-path"),
        (".", "{} is not a MiniCPM-o folder: it has no config.json; correct --model-path"),
    ],
)
def test_a_folder_without_a_checkpoint_is_one_failure(tmp_path: Path, name: str, says: str) -> None:
    folder = tmp_path / name
    findings = list(examine(folder, EngineOptions(device="cpu")))
    [failed] = [each for each in findings if each.verdict is FindingStatus.FAILURE]
    assert (failed.about, failed.found) == ("model folder", says.format(folder))
    assert "openbmb/MiniCPM-o-4_5: docs/gpu.md" in failed.remedy
    assert findings[-1] is failed
