"""What `antiphon doctor` says of a checkpoint: if something is wrong, one cause and its remedy."""

from pathlib import Path

import pytest

from antiphon.inference_worker.engines.factory import examine_engine
from antiphon.inference_worker.engines.minicpmo.checkup import examine
from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.shared_schemas.findings import FindingStatus
from support.minicpmo.golden_set import CHECKPOINT


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


def test_a_complete_checkpoint() -> None:
    findings = {
        one.about: one for one in examine_engine("minicpmo", 2, CHECKPOINT, {"device": "cpu"})
    }
    failed = {name for name, one in findings.items() if one.verdict is FindingStatus.FAILURE}
    assert failed == set()
    assert findings["gpu"].verdict is FindingStatus.WARNING
    assert findings["model folder"].found.startswith(f"{CHECKPOINT}, 1 weight files")
    assert findings["model tensors"].found.startswith("all ")


def test_a_card_that_is_not_present() -> None:
    findings = {
        one.about: one for one in examine_engine("minicpmo", 2, CHECKPOINT, {}, card="h200")
    }
    assert findings["gpu"].found.startswith("NVIDIA H200, 139 GiB assumed to be free")
    assert findings["model memory"].found.startswith("2 slots of 8192 tokens (text only) need ")
    for engine, card, words in (
        ("minicpmo", "h300", "no card is called 'h300'; the cards are a10"),
        ("local", "h200", "this engine knows no cards"),
    ):
        [finding] = examine_engine(engine, 2, CHECKPOINT, {}, card=card)
        assert (finding.about, finding.verdict) == ("card", FindingStatus.FAILURE)
        assert words in finding.found
