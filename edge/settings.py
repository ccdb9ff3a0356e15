"""Settings of one edge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from antiphon.edge.access_settings import AccessSettings

MIB = 1024 * 1024

SHIPPED_ASSETS = Path(__file__).parent / "assets"
"""Presets and voices that come with the package."""

BUILT_PAGES = Path(__file__).parent / "pages"
"""Where the build of `web/` leaves the pages; it is not under version control."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """What may wait for a client that reads slowly."""

    messages: int
    bytes: int


class EdgeSettings(AccessSettings):
    """Where it listens, what it takes from a client, and how patient it is."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8006, ge=0, le=65535, description="0 picks a free port")
    assets_dir: Path = Field(
        default=SHIPPED_ASSETS, description="folder with ref_audio/*.wav and presets/*/*.yaml"
    )
    pages_dir: Path = Field(default=BUILT_PAGES, description="folder with the built pages")
    default_voice: str = Field(
        default="english.wav", description="file in ref_audio/ that pages begin with"
    )
    max_voices: int = Field(default=100, ge=0, description="uploaded reference voices kept")
    max_voice_s: float = Field(default=30.0, gt=0, description="longest uploaded voice")
    max_voice_bytes: int = Field(default=4 * MIB, ge=1024, description="largest uploaded file")
    max_body_bytes: int = Field(
        default=64 * 1024, ge=1024, description="longest body of the other requests"
    )
    data_dir: Path = Field(default=Path("data"), description="recordings lie in sessions/ below it")
    recordings_dir: Path | None = Field(
        default=None, description="where recordings lie, if it is not there"
    )
    max_upload_bytes: int = Field(
        default=200 * MIB, ge=1024, description="largest recording that a client uploads"
    )
    playback_delay_ms: int = Field(
        default=200, ge=0, le=5000, description="sound that pages gather before they play"
    )
    default_lang: Literal["en", "zh"] | None = Field(
        default=None, description="language of the pages; by default the browser's"
    )

    max_message_bytes: int = Field(
        default=4 * MIB, ge=1024, description="longest client message; longer ones get an error"
    )
    max_chunk_s: float = Field(default=5.0, gt=0, description="longest audio chunk")
    max_reference_s: float = Field(default=60.0, gt=0, description="longest reference voice")
    max_frame_bytes: int = Field(default=2 * MIB, ge=1024, description="largest camera frame")
    max_frame_pixels: int = Field(default=4096 * 4096, ge=1, description="most pixels per frame")
    input_ahead_s: float = Field(
        default=20.0, gt=0, description="how far a client's audio may run ahead of real time"
    )
    input_messages_per_s: float = Field(
        default=50.0,
        gt=0,
        description="client messages taken per second, bursts of four times that",
    )
    input_bytes_per_s: int = Field(
        default=4 * MIB,
        ge=1024,
        description="client bytes taken per second, bursts of four times that",
    )
    pause_timeout_s: float = Field(default=60.0, gt=0, description="pause unless a client says")
    max_pause_timeout_s: float = Field(default=600.0, gt=0, description="longest pause")

    max_chat_bytes: int = Field(
        default=64 * MIB, ge=1024, description="longest chat request, media and all"
    )
    max_chats_bytes: int = Field(
        default=512 * MIB,
        ge=1024,
        description="chat requests held at once, all together; others are told to try again",
    )
    max_chat_audio_s: float = Field(default=600.0, gt=0, description="longest audio part of a chat")
    max_image_bytes: int = Field(default=16 * MIB, ge=1024, description="largest chat picture")
    max_video_bytes: int = Field(default=48 * MIB, ge=1024, description="largest chat video")
    chat_request_s: float = Field(
        default=120.0, gt=0, description="how long a chat may take to send its request"
    )
    request_head_s: float = Field(
        default=10.0,
        gt=0,
        description="how long a connection may take to say what it wants: its request's head",
    )
    realtime_video_s: float = Field(
        default=300.0, gt=0, description="longest realtime session with video, waiting included"
    )
    realtime_audio_s: float = Field(
        default=600.0, gt=0, description="longest realtime session without video"
    )

    max_unsent_messages: int = Field(
        default=32, ge=2, description="messages kept for a slow client"
    )
    max_unsent_bytes: int = Field(
        default=8 * MIB, ge=MIB, description="text kept for a slow client"
    )
    max_unsent_turn_messages: int = Field(
        default=4096,
        ge=2,
        description="messages kept for a slow client that gets answers in pieces",
    )
    max_unsent_turn_bytes: int = Field(
        default=32 * MIB, ge=MIB, description="text kept for a slow client of that kind"
    )
    send_stall_s: float = Field(
        default=10.0, gt=0, description="a client that reads nothing for this long is closed"
    )
    ping_interval_s: float = Field(default=15.0, gt=0, description="WebSocket keep-alive")
    ping_timeout_s: float = Field(default=15.0, gt=0, description="a silent client counts as gone")
    broker_patience_s: float = Field(
        default=30.0, gt=0, description="how long a session waits for Redis to come back"
    )
    drain_s: float = Field(
        default=5.0, ge=0, description="how long sessions may go on after SIGTERM"
    )

    @property
    def recordings_root(self) -> Path:
        """The directory of all session directories."""
        return self.recordings_dir or self.data_dir / "sessions"

    @property
    def unsent(self) -> Unsent:
        """For sessions that send about a message a second."""
        return Unsent(self.max_unsent_messages, self.max_unsent_bytes)

    @property
    def unsent_turns(self) -> Unsent:
        """For sessions whose answers come as fast as they are generated."""
        return Unsent(self.max_unsent_turn_messages, self.max_unsent_turn_bytes)
