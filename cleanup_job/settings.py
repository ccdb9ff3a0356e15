"""Settings of the cleanup job."""

from typing import Annotated

from pydantic import Field

from antiphon.broker.settings import RecordingsSettings
from antiphon.shared_schemas.constant import CONSTANT


class CleanupSettings(RecordingsSettings):
    """What may stay on disk; -1 switches a rule off."""

    cleanup_health_port: int = Field(default=22600, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    retention_days: float = Field(default=30, ge=-1)
    """recordings older than this are deleted"""
    max_storage_gb: float = Field(default=50, ge=-1)
    """above this the least recently used are deleted (GiB)"""
    dry_run: bool = False
    """only report what would be deleted"""

    orphan_hours: Annotated[float, CONSTANT] = 24
    """a recording in progress without a write for this long may be deleted"""
    interval_s: Annotated[float, CONSTANT] = 86_400
    """time between two sweeps"""
    disk_check_s: Annotated[float, CONSTANT] = 60.0
    """how often free space is checked between two sweeps"""
