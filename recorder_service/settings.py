"""Settings of one recorder."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from antiphon.broker.settings import StatusSettings


class RecorderSettings(StatusSettings):
    """Where recordings go, and how replicas share the work."""

    data_dir: Path = Path("data")
    """the folder whose sessions/ holds the recordings"""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """free space on the disk below which recording waits (GiB)"""
    recorder_opus: bool = True
    """also write the merged replay as Ogg Opus"""
    recorder_health_port: int = Field(default=22500, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    recorder_upkeep_s: float = Field(default=2.0, gt=0)
    """how often a recorder confirms the sessions it records"""
    recorder_silence_s: float = Field(default=10.0, gt=0)
    """a recorder silent for this long loses its sessions"""
    recorder_settle_s: float = Field(default=2.0, ge=0)
    """wait for a session's last entries after its end"""
    recorder_look_s: float = Field(default=10.0, gt=0)
    """how often a recorder reads the rows of its sessions"""
    recorder_adopt_s: float = Field(default=300.0, gt=0)
    """an unfinished recording without a recorder for this long is adopted"""
    recorder_drain_s: float = Field(default=5.0, ge=0)
    """time to finish ended sessions after SIGTERM"""
    recorder_retry_s: float = Field(default=1.0, gt=0)
    """first pause after a disk error; doubles up to 30 s"""
    recorder_max_attempts: int = Field(default=3, ge=1)
    """failures after which a recording that cannot be finished is set aside"""
