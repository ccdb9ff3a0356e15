"""The reserve of free disk space."""

import errno
from pathlib import Path

import pytest

from antiphon.broker.service import disk
from antiphon.broker.service.disk import DiskReserve


def test_a_full_disk_is_noticed_and_forgotten_at_once(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "missing", reserve_gb=1e9)
    for _ in range(2):
        with pytest.raises(OSError, match="1e\\+09 GiB") as caught:
            reserve.check()
        assert caught.value.errno == errno.ENOSPC
    reserve._reserve_gb = 1e-6
    reserve.check()


def test_many_checks_measure_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(disk, "_VALID_S", 3600.0)
    monkeypatch.setattr(disk, "free_bytes", lambda path: measured.append(path) or 2**40)
    reserve = DiskReserve(tmp_path, reserve_gb=1.0)
    for _ in range(100):
        reserve.check()
    assert measured == [tmp_path]


def test_a_disk_that_becomes_full_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = DiskReserve(tmp_path, reserve_gb=1e-6)
    monkeypatch.setattr(disk, "_VALID_S", 0.0)
    reserve.check()
    reserve._reserve_gb = 1e9
    with pytest.raises(OSError, match="are free"):
        reserve.check()
