"""Settings of one recorder."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from antiphon.broker.settings import StatusSettings


class RecorderSettings(StatusSettings):
    """Where recordings go, and how replicas share the work."""

    data_dir: Path = Field(default=Path("data"), description="recordings lie in sessions/ below it")
    recorder_health_port: int = Field(
        default=22500, ge=0, le=65535, description="port with /health and /metrics; 0: any free one"
    )
    recorder_upkeep_s: float = Field(
        default=2.0, gt=0, description="how often a recorder confirms the sessions it records"
    )
    recorder_silence_s: float = Field(
        default=10.0, gt=0, description="a recorder silent this long loses its sessions"
    )
    recorder_settle_s: float = Field(
        default=2.0, ge=0, description="how long after its end a session's last words may come"
    )
    recorder_look_s: float = Field(
        default=10.0, gt=0, description="how often the rows of recorded sessions are looked at"
    )
    recorder_adopt_s: float = Field(
        default=300.0,
        gt=0,
        description="unfinished recordings nobody works on so long are finished",
    )
    recorder_drain_s: float = Field(
        default=5.0, ge=0, description="how long ended sessions may be finished after SIGTERM"
    )
    recorder_retry_s: float = Field(
        default=1.0, gt=0, description="first pause after the disk failed; doubles up to 30 s"
    )
