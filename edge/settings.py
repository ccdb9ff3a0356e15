"""Settings of one edge, and the capabilities that follow from them."""

import re
from dataclasses import dataclass
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from antiphon.broker.settings import BrokerSettings, RecordingsSettings, read_utf8
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, PcmFormat
from antiphon.shared_schemas.config import CONTEXT_TOKENS
from antiphon.shared_schemas.constant import CONSTANT
from antiphon.shared_schemas.messages.duplex import MAX_FRAMES
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

_PORTS = r"^([0-9]{1,5}-[0-9]{1,5})?$"

CommaSeparated = Annotated[tuple[str, ...], NoDecode]
"""A list, or one string with commas, as in environment variables."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def check_key(key: str) -> str:
    """Raises ValueError; its text does not contain the key."""
    if not _KEY.fullmatch(key):
        raise ValueError("keys are 16 to 256 printable ASCII characters without spaces")
    return key


def _check_secret(key: SecretStr) -> SecretStr:
    check_key(key.get_secret_value())
    return key


def _connects_per_minute(sockets: int) -> int:
    """For an address that may have so many sockets open."""
    return max(600, 3 * sockets) if sockets else 0


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
    twilio_auth_token_file: Path | None = None
    """file with the auth token of a Twilio account, whose calls may then use /twilio/media"""
    allowed_origins: CommaSeparated = ()
    """web origins in addition to the edge's own, such as https://app.example; * for any"""
    allowed_hosts: CommaSeparated = ()
    """host names under which the edge answers; default: any, on loopback without keys those of this machine"""
    trusted_proxies: CommaSeparated = ()
    """addresses or networks whose X-Forwarded-* headers are trusted"""
    max_sockets_per_address: int = Field(default=200, ge=0)
    """open WebSockets of one address, and open HTTP connections; 0: no limit, also of new ones per minute"""
    max_sessions_per_client: int = Field(default=0, ge=0)
    """live sessions of one API key, or without keys of one address; 0: no limit"""

    max_connects_per_minute: Annotated[int, CONSTANT] = Field(
        default_factory=lambda data: _connects_per_minute(data["max_sockets_per_address"])
    )
    """new connections of one address per minute; 0: no limit"""

    @field_validator(
        "api_keys", "allowed_hosts", "allowed_origins", "trusted_proxies", mode="before"
    )
    @classmethod
    def _split_text(cls, value: object) -> object:
        return _split(value)

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

    def twilio_auth_token(self) -> str | None:
        """Raises OSError or ValueError."""
        lines = _lines(self.twilio_auth_token_file) if self.twilio_auth_token_file else []
        return lines[0] if lines else None


class EdgeSettings(AccessSettings, RecordingsSettings):
    """Address, files, and limits on clients. `assets_dir` replaces the bundled folder: begin with a copy."""

    host: str = "127.0.0.1"
    """address to listen on; 0.0.0.0 for clients on other machines"""
    port: int = Field(default=8006, ge=0, le=65535)
    """0 picks a free port"""
    edge_health_port: int = Field(default=22300, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    assets_dir: Path = SHIPPED_ASSETS
    """folder with ref_audio/*.wav and presets/*/*.yaml"""
    default_voice: str = "english.wav"
    """file in ref_audio/ that pages select first"""
    max_voices: int = Field(default=100, ge=0)
    """uploaded reference voices kept; 0 forbids uploads"""
    playback_delay_ms: int = Field(default=200, ge=0, le=5000)
    """audio that pages buffer before playback; raise it against gaps"""
    default_lang: Literal["en", "zh"] | None = None
    """language of the pages; default: the browser's"""
    max_chat_bytes: int = Field(default=64 * MIB, ge=1024)
    """longest chat request, media included; eight times as much is kept in memory for all"""
    no_worker_grace_s: float = Field(default=5.0, ge=0.1)
    """time without a worker after which POST /api/chat answers 503; raise it for autoscaling from none"""
    realtime_video_s: float = Field(default=300.0, gt=0)
    """longest realtime session with video, queueing included"""
    realtime_audio_s: float = Field(default=600.0, gt=0)
    """the same without video, and longest pause with mode=chat"""
    webrtc_addresses: CommaSeparated = ()
    """IP addresses of calls by WebRTC, behind NAT or in a container; default: those of this machine"""
    webrtc_ports: str = Field(default="", pattern=_PORTS)
    """UDP ports of calls by WebRTC, such as 40000-40199, one for each call; default: any free ones"""
    drain_s: float = Field(default=5.0, ge=0)
    """how long sessions may continue after SIGTERM"""

    call_connect_s: Annotated[float, CONSTANT] = 20.0
    """time a client has to connect a call by WebRTC after the answer to its offer"""
    chat_request_s: Annotated[float, CONSTANT] = 120.0
    """time a client has to send a chat request"""
    input_ahead_s: Annotated[float, CONSTANT] = 20.0
    """how far a client's audio may run ahead of real time"""
    input_bytes_per_s: Annotated[int, CONSTANT] = 4 * MIB
    """client bytes accepted per second; bursts up to four times that"""
    input_messages_per_s: Annotated[float, CONSTANT] = 50.0
    """client messages accepted per second, audio of 10 ms or more aside; bursts up to four times that"""
    max_body_bytes: Annotated[int, CONSTANT] = 64 * 1024
    """longest body of requests other than chats and uploads"""
    max_chat_audio_s: Annotated[float, CONSTANT] = 600.0
    """longest audio part of a chat"""
    max_chats_bytes: Annotated[int, CONSTANT] = Field(
        default_factory=lambda data: 8 * data["max_chat_bytes"]
    )
    """total size of chat requests and incomplete messages in memory; others must retry"""
    max_chunk_s: Annotated[float, CONSTANT] = 5.0
    """longest audio chunk"""
    max_frame_bytes: Annotated[int, CONSTANT] = 2 * MIB
    """largest camera frame"""
    max_frame_pixels: Annotated[int, CONSTANT] = 4096 * 4096
    """most pixels per frame"""
    max_image_bytes: Annotated[int, CONSTANT] = 16 * MIB
    """largest chat picture"""
    max_message_bytes: Annotated[int, CONSTANT] = 4 * MIB
    """longest client message; longer ones get an error"""
    max_pause_timeout_s: Annotated[float, CONSTANT] = 600.0
    """longest pause"""
    max_reference_s: Annotated[float, CONSTANT] = 60.0
    """longest reference voice"""
    max_unsent: Annotated[Unsent, CONSTANT] = Unsent(160, 8 * MIB)
    """buffered for a slow client of a session that sends up to five messages per second"""
    max_unsent_turns: Annotated[Unsent, CONSTANT] = Unsent(4096, 32 * MIB)
    """buffered for a slow client whose answers are sent as fast as they are generated"""
    max_upload_bytes: Annotated[int, CONSTANT] = 200 * MIB
    """largest recording that a client uploads"""
    max_video_bytes: Annotated[int, CONSTANT] = 48 * MIB
    """largest chat video"""
    openai_realtime_s: Annotated[float, CONSTANT] = 3600.0
    """longest session of OpenAI's Realtime API"""
    pages_dir: Annotated[Path, CONSTANT] = BUILT_PAGES
    """folder with the built pages"""
    pause_timeout_s: Annotated[float, CONSTANT] = 60.0
    """pause if the client names no length"""
    ping_interval_s: Annotated[float, CONSTANT] = 15.0
    """WebSocket keep-alive"""
    ping_timeout_s: Annotated[float, CONSTANT] = 15.0
    """a client that sends no pong for this long is disconnected"""
    request_head_s: Annotated[float, CONSTANT] = 10.0
    """time a connection has to send the head of its request"""
    send_stall_s: Annotated[float, CONSTANT] = 10.0
    """a client that reads nothing for this long is disconnected"""

    @field_validator("webrtc_addresses", mode="before")
    @classmethod
    def _check_addresses(cls, value: object) -> object:
        addresses = _split(value)
        for text in addresses if isinstance(addresses, list | tuple) else ():
            ip_address(str(text))
        return addresses

    @field_validator("webrtc_ports")
    @classmethod
    def _check_ports(cls, value: str) -> str:
        if value and not 0 < int(value.partition("-")[0]) <= int(value.partition("-")[2]) < 65536:
            raise ValueError("must be the first and the last port, such as 40000-40199")
        return value

    @property
    def webrtc_port_range(self) -> tuple[int, int] | None:
        """First and last; None: any."""
        first, _, last = self.webrtc_ports.partition("-")
        return (int(first), int(last)) if last else None


def connection_offer(settings: EdgeSettings) -> dict[str, Any]:
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
    # A key may have the character of comments, which begin a line or follow a space.
    lines = [re.split(r"(?:^|\s)#", line)[0].strip() for line in read_utf8(path).splitlines()]
    keys = [line for line in lines if line]
    if may_be_open and keys == ["*"]:
        return []
    if not keys:
        raise ValueError(f"{path} has no key" + (", and no line with *" if may_be_open else ""))
    return [check_key(key) for key in keys]
