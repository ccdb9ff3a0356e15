"""Settings of the cleanup job."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from antiphon.broker.settings import StatusSettings
from antiphon.shared_schemas.constant import CONSTANT


class CleanupSettings(StatusSettings):
    """What may stay on disk; -1 switches a rule off."""

    data_dir: Path = Path("data")
    """the folder whose sessions/ holds the recordings"""
    cleanup_health_port: int = Field(default=22600, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    retention_days: float = Field(default=30, ge=-1)
    """recordings older than this are deleted"""
    max_storage_gb: float = Field(default=50, ge=-1)
    """above this the least recently used are deleted (GiB)"""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """free space that cleanup restores, with a quarter more (GiB)"""
    dry_run: bool = False
    """only report what would be deleted"""

    orphan_hours: Annotated[float, CONSTANT] = 24
    """a recording in progress without a write for this long may be deleted"""
    interval_s: Annotated[float, CONSTANT] = 86_400
    """time between two sweeps"""
    disk_check_s: Annotated[float, CONSTANT] = 60.0
    """how often free space is checked between two sweeps"""
