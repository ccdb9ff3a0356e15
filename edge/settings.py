"""Settings of one edge, and the capabilities that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from antiphon.broker.settings import BrokerSettings, StatusSettings, read_utf8
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat
from antiphon.shared_schemas.messages.duplex import MAX_FRAMES
from antiphon.shared_schemas.messages.realtime import CONTEXT_TOKENS
from antiphon.shared_schemas.wire import BINARY_PROTOCOL

MIB = 1024 * 1024

PROTOCOL_VERSION = 1
"""Increased when something changes that clients rely on."""

SHIPPED_ASSETS = Path(__file__).parent / "assets"
"""Presets and voices that come with the package."""

BUILT_PAGES = Path(__file__).parent / "pages"
"""Output of the build of `web/`; not under version control."""

_KEY = re.compile(r"[!-~]{16,256}")
"""Long enough to resist guessing, and safe in a header."""

CommaSeparated = Annotated[tuple[str, ...], NoDecode]
"""A list, or one string with commas, as in environment variables."""


def check_key(key: str) -> str:
    """Raises ValueError; its text does not contain the key."""
    if not _KEY.fullmatch(key):
        raise ValueError("keys are 16 to 256 printable ASCII characters without spaces")
    return key


def _check_secret(key: SecretStr) -> SecretStr:
    check_key(key.get_secret_value())
    return key


SecretKey = Annotated[SecretStr, AfterValidator(_check_secret)]


@dataclass(frozen=True, slots=True)
class Unsent:
    """Limits on unsent output for a client that reads slowly."""

    messages: int
    bytes: int


class AccessSettings(BrokerSettings):
    """Keys, origins, proxies, and limits of one address."""

    model_config = SettingsConfigDict(hide_input_in_errors=True)  # the input may be a key

    api_keys: Annotated[tuple[SecretKey, ...], NoDecode] = ()
    """keys of clients; without any, everyone may connect"""
    api_keys_file: Path | None = None
    """file with more keys, one per line; # begins a comment; only a line with * lets everyone connect;
    changes apply within seconds"""
    admin_token: SecretKey | None = None
    """gives access to the admin routes and to everything else"""
    admin_token_file: Path | None = None
    """file with the admin token"""
    allowed_origins: CommaSeparated = ()
    """web origins in addition to the edge's own, such as https://app.example; * for any"""
    allowed_hosts: CommaSeparated = ()
    """host names under which the edge answers; default: any, or only names of this machine when it
    listens on loopback without keys"""
    trusted_proxies: CommaSeparated = ()
    """addresses or networks whose X-Forwarded-* headers are trusted"""
    max_sockets_per_address: int = Field(default=200, ge=0)
    """open WebSockets of one address, and open HTTP connections; 0: no limit"""
    max_sessions_per_client: int = Field(default=0, ge=0)
    """sessions, waiting or running, of one API key, or without keys of one address; 0: no limit"""
    max_connects_per_minute: int = Field(default=600, ge=0)
    """new connections of one address per minute; 0: no limit"""

    @field_validator(
        "api_keys", "allowed_hosts", "allowed_origins", "trusted_proxies", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    def client_keys(self) -> list[str]:
        """Keys of both settings. Raises OSError or ValueError."""
        keys = [key.get_secret_value() for key in self.api_keys]
        return keys + (_lines(self.api_keys_file, may_be_open=True) if self.api_keys_file else [])

    def admin_key(self) -> str | None:
        """Raises OSError or ValueError."""
        if self.admin_token is not None:
            return self.admin_token.get_secret_value()
        lines = _lines(self.admin_token_file) if self.admin_token_file else []
        return lines[0] if lines else None


class EdgeSettings(AccessSettings, StatusSettings):
    """Address, files, limits on clients, and timeouts."""

    host: str = "127.0.0.1"
    """address to listen on"""
    port: int = Field(default=8006, ge=0, le=65535)
    """0 picks a free port"""
    edge_health_port: int = Field(default=22300, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    assets_dir: Path = SHIPPED_ASSETS
    """folder with ref_audio/*.wav and presets/*/*.yaml"""
    pages_dir: Path = BUILT_PAGES
    """folder with the built pages"""
    default_voice: str = "english.wav"
    """file in ref_audio/ that pages select first"""
    max_voices: int = Field(default=100, ge=0)
    """uploaded reference voices kept"""
    max_voice_s: float = Field(default=30.0, gt=0)
    """longest uploaded voice"""
    max_voice_bytes: int = Field(default=4 * MIB, ge=1024)
    """largest uploaded file"""
    max_body_bytes: int = Field(default=64 * 1024, ge=1024)
    """longest body of all other requests"""
    data_dir: Path = Path("data")
    """contains the recordings in sessions/"""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """free space on the recordings' disk below which uploads are refused (GiB)"""
    recordings_dir: Path | None = None
    """folder of the recordings, if not sessions/ in data_dir"""
    max_upload_bytes: int = Field(default=200 * MIB, ge=1024)
    """largest recording that a client uploads"""
    playback_delay_ms: int = Field(default=200, ge=0, le=5000)
    """audio that pages buffer before playback"""
    default_lang: Literal["en", "zh"] | None = None
    """language of the pages; default: the browser's"""

    max_message_bytes: int = Field(default=4 * MIB, ge=1024)
    """longest client message; longer ones get an error"""
    max_chunk_s: float = Field(default=5.0, gt=0)
    """longest audio chunk"""
    max_reference_s: float = Field(default=60.0, gt=0)
    """longest reference voice"""
    max_frame_bytes: int = Field(default=2 * MIB, ge=1024)
    """largest camera frame"""
    max_frame_pixels: int = Field(default=4096 * 4096, ge=1)
    """most pixels per frame"""
    input_ahead_s: float = Field(default=20.0, gt=0)
    """how far a client's audio may run ahead of real time"""
    input_messages_per_s: float = Field(default=50.0, gt=0)
    """client messages accepted per second, audio of 10 ms or more aside; bursts up to four times that"""
    input_bytes_per_s: int = Field(default=4 * MIB, ge=1024)
    """client bytes accepted per second; bursts up to four times that"""
    pause_timeout_s: float = Field(default=60.0, gt=0)
    """pause if the client names no length"""
    max_pause_timeout_s: float = Field(default=600.0, gt=0)
    """longest pause"""

    max_chat_bytes: int = Field(default=64 * MIB, ge=1024)
    """longest chat request, media included"""
    max_chats_bytes: int = Field(default=512 * MIB, ge=1024)
    """total size of the chat requests and incomplete messages held at once; others must retry"""
    max_chat_audio_s: float = Field(default=600.0, gt=0)
    """longest audio part of a chat"""
    max_image_bytes: int = Field(default=16 * MIB, ge=1024)
    """largest chat picture"""
    max_video_bytes: int = Field(default=48 * MIB, ge=1024)
    """largest chat video"""
    chat_request_s: float = Field(default=120.0, gt=0)
    """time a client has to send a chat request"""
    no_worker_grace_s: float = Field(default=5.0, ge=0.1)
    """time without a worker that serves chat, or loads, after which POST /api/chat answers 503"""
    request_head_s: float = Field(default=10.0, gt=0)
    """time a connection has to send the head of its request"""
    realtime_video_s: float = Field(default=300.0, gt=0)
    """longest realtime session with video, queueing included"""
    realtime_audio_s: float = Field(default=600.0, gt=0)
    """longest realtime session without video, and longest pause between requests with mode=chat"""

    max_unsent_messages: int = Field(default=32, ge=2)
    """messages buffered for a slow client"""
    max_unsent_bytes: int = Field(default=8 * MIB, ge=MIB)
    """bytes buffered for a slow client"""
    max_unsent_turn_messages: int = Field(default=4096, ge=2)
    """messages buffered for a slow client of a streamed answer"""
    max_unsent_turn_bytes: int = Field(default=32 * MIB, ge=MIB)
    """bytes buffered for a slow client of a streamed answer"""
    send_stall_s: float = Field(default=10.0, gt=0)
    """a client that reads nothing for this long is disconnected"""
    ping_interval_s: float = Field(default=15.0, gt=0)
    """WebSocket keep-alive"""
    ping_timeout_s: float = Field(default=15.0, gt=0)
    """a client that sends no pong for this long is disconnected"""
    drain_s: float = Field(default=5.0, ge=0)
    """how long sessions may continue after SIGTERM"""

    @property
    def recordings_root(self) -> Path:
        return self.recordings_dir or self.data_dir / "sessions"

    @property
    def unsent(self) -> Unsent:
        """For sessions that send about one message per second."""
        return Unsent(self.max_unsent_messages, self.max_unsent_bytes)

    @property
    def unsent_turns(self) -> Unsent:
        """For sessions whose answers are sent as fast as they are generated."""
        return Unsent(self.max_unsent_turn_messages, self.max_unsent_turn_bytes)


def capabilities(settings: EdgeSettings) -> dict[str, Any]:
    """The `capabilities` object that clients can request; sizes in bytes, times in seconds."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "server_version": version("antiphon"),
        "features": [
            "binary",
            "notices",
            "playback_ack",
            "progress",
            "resume",
            "timing",
            "transcript",
            "word_times",
        ],
        "subprotocols": [BINARY_PROTOCOL],
        "pcm_formats": [str(form) for form in PcmFormat],
        "input_sample_rate": INPUT_RATE,
        "output_sample_rate": OUTPUT_RATE,
        "limits": {
            "message_bytes": settings.max_message_bytes,
            "chat_request_bytes": settings.max_chat_bytes,
            "chunk_s": settings.max_chunk_s,
            "audio_ahead_s": settings.input_ahead_s,
            "messages_per_s": settings.input_messages_per_s,
            "bytes_per_s": settings.input_bytes_per_s,
            "reference_audio_s": settings.max_reference_s,
            "frames_per_chunk": MAX_FRAMES,
            "frame_bytes": settings.max_frame_bytes,
            "pause_s": settings.max_pause_timeout_s,
            "realtime_video_s": settings.realtime_video_s,
            "realtime_audio_s": settings.realtime_audio_s,
            "context_tokens": CONTEXT_TOKENS,
            "resume_grace_s": settings.resume_grace_s,
        },
    }


def _lines(path: Path, *, may_be_open: bool = False) -> list[str]:
    """Raises ValueError for an empty file: it would remove the protection it was meant to add."""
    lines = [line.split("#")[0].strip() for line in read_utf8(path).splitlines()]
    keys = [line for line in lines if line]
    if may_be_open and keys == ["*"]:
        return []
    if not keys:
        raise ValueError(f"{path} has no key" + (", and no line with *" if may_be_open else ""))
    return [check_key(key) for key in keys]
