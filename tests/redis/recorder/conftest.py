"""Settings of the recorders under test."""

from pathlib import Path

import pytest

from antiphon.broker.settings import BrokerSettings
from antiphon.recorder_service.settings import RecorderSettings
from support.recorder_process import quick


@pytest.fixture
def quickly(settings: BrokerSettings, tmp_path: Path) -> RecorderSettings:
    return quick(settings, tmp_path / "data")
