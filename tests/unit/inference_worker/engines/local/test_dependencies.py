import sys

import pytest

from antiphon.inference_worker.engines.local.dependencies import (
    examine_recogniser,
    import_library,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import FindingStatus


def test_a_missing_library_is_reported_with_the_command() -> None:
    with pytest.raises(EngineLoadError, match=r"no_such_library.*pip install no_such_library"):
        import_library("no_such_library.part")


def test_the_recogniser_is_examined_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine_recogniser().verdict is FindingStatus.OK
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    finding = examine_recogniser()
    assert finding.verdict is FindingStatus.FAILURE
    assert "moonshine" in finding.found
