"""Settings of one recorder."""

from typing import Annotated

from pydantic import Field

from antiphon.broker.settings import RecordingsSettings
from antiphon.shared_schemas.constant import CONSTANT


class RecorderSettings(RecordingsSettings):
    """What is written, and how replicas share the work."""

    recorder_opus: bool = True
    """also write the merged replay as Ogg Opus; false saves CPU time"""
    recorder_health_port: int = Field(default=22500, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""

    recorder_upkeep_s: Annotated[float, CONSTANT] = 2.0
    """how often a recorder confirms the sessions it records"""
    recorder_silence_s: Annotated[float, CONSTANT] = 10.0
    """a recorder silent for this long loses its sessions"""
    recorder_settle_s: Annotated[float, CONSTANT] = 2.0
    """wait for a session's last entries after its end"""
    recorder_look_s: Annotated[float, CONSTANT] = 10.0
    """how often a recorder reads the rows of its sessions"""
    recorder_adopt_s: Annotated[float, CONSTANT] = 300.0
    """an unfinished recording without a recorder for this long is adopted"""
    recorder_drain_s: Annotated[float, CONSTANT] = 5.0
    """time to finish ended sessions after SIGTERM"""
    recorder_retry_s: Annotated[float, CONSTANT] = 1.0
    """first pause after a disk error; doubles up to 30 s"""
    recorder_max_attempts: Annotated[int, CONSTANT] = 3
    """failures after which a recording that cannot be finished is set aside"""
