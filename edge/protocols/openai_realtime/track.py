"""The sound track of a call as sessions see it: binary frames from it and to it."""

from dataclasses import dataclass
from typing import Literal

from antiphon.shared_schemas.wire import ServerMessage


class HeardSound(bytes):
    """What the client says: 16-bit PCM at 16 kHz."""


PlaybackEvent = Literal["started", "stopped", "cleared"]


@dataclass(frozen=True, slots=True)
class PlaybackReport:
    """What has happened to the sound of an answer. `played_ms`: of the item's sound, so far."""

    event: PlaybackEvent
    response_id: str
    item_id: str
    played_ms: int


class ReportFrame(bytes):
    """A frame without content that carries a report."""

    report: PlaybackReport

    @classmethod
    def of(cls, report: PlaybackReport) -> "ReportFrame":
        frame = cls()
        frame.report = report
        return frame


class TrackOrder(ServerMessage, type="track"):
    """To the track: play more of an answer, end playback after it, or forget what is not played yet."""

    order: Literal["play", "end", "clear"]
    response_id: str = ""
    item_id: str = ""
    pcm: bytes = b""


class OrderFrame(bytes):
    """The sound of an order: 16-bit PCM at 24 kHz."""

    order: TrackOrder

    @classmethod
    def of(cls, order: TrackOrder) -> "OrderFrame":
        frame = cls(order.pcm)
        frame.order = order
        return frame
