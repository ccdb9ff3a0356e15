"""A call: the same protocol, with the sound on a track in place of events."""

from antiphon.edge.errors import Close
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.protocols.machine import Action, Actions, Finish, Phase, Send
from antiphon.edge.protocols.openai_realtime.decoder import (
    AppendSound,
    OpenAiRealtimeDecoder,
    RealtimeCommand,
)
from antiphon.edge.protocols.openai_realtime.events import RealtimeEvent, event
from antiphon.edge.protocols.openai_realtime.machine import OpenAiRealtimeMachine
from antiphon.edge.protocols.openai_realtime.settings import RealtimeState
from antiphon.edge.protocols.openai_realtime.track import (
    HeardSound,
    PlaybackReport,
    ReportFrame,
    TrackOrder,
)
from antiphon.shared_schemas.entries import OutEntry, TruncateItemIn, TurnDoneOut, VadOut
from antiphon.shared_schemas.messages.openai_realtime import ClearOutput
from antiphon.shared_schemas.states import EndReason


class CallDecoder:
    """Decodes what comes over the data channel, and what the track has received and played."""

    def __init__(self, events: OpenAiRealtimeDecoder, state: RealtimeState) -> None:
        self._events = events
        self._state = state

    async def decode(self, frame: ClientFrame) -> RealtimeCommand:
        """Raises InvalidInput or NotJson."""
        if isinstance(frame, ReportFrame):
            return frame.report
        if isinstance(frame, HeardSound):
            self._state.begin_event()
            self._state.sound.add(frame, AudioFormat.PCM_16K)
            return AppendSound()
        return await self._events.decode(frame)


class CallMachine(OpenAiRealtimeMachine):
    """The server plays the answers, so it knows which part of an interrupted one was played."""

    def deliver(self, entry: OutEntry, now_ms: float) -> Actions:
        actions: list[Action] = []
        if isinstance(entry, VadOut) and entry.speaking and self._is_interruptible:
            actions.append(Send(TrackOrder(order="clear")))
        actions += [_on_track(action) for action in super().deliver(entry, now_ms)]
        if isinstance(entry, TurnDoneOut):
            actions.append(Send(TrackOrder(order="end", response_id=entry.response_id)))
        return actions

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is EndReason.STOPPED:  # somebody has hung up
            self.phase = Phase.OVER
            return [Finish(Close.NORMAL, reason)]
        return super().ended(reason)

    @property
    def _is_interruptible(self) -> bool:
        detection = self._state.session["audio"]["input"].get("turn_detection")
        return bool(detection and detection["interrupt_response"])

    def _handle(self, command: RealtimeCommand) -> Actions:
        if isinstance(command, ClearOutput):
            return [Send(TrackOrder(order="clear"))]
        if isinstance(command, PlaybackReport):
            return self._played(command)
        return super()._handle(command)

    def _played(self, report: PlaybackReport) -> list[Action]:
        """What was cleared is forgotten by the model, unless it is outside of the conversation."""
        item_id, at_ms = report.item_id, report.played_ms
        played = Send(event(f"output_audio_buffer.{report.event}", response_id=report.response_id))
        if report.event != "cleared" or item_id not in self._ledger:
            return [played]
        put = self._put(TruncateItemIn(item_id=item_id, audio_ms=at_ms))
        self._ledger.truncate(item_id, at_ms)
        cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": at_ms}
        return [*put, played, Send(event("conversation.item.truncated", **cut))]


def _on_track(action: Action) -> Action:
    """Sound goes to the track."""
    message = action.message if isinstance(action, Send) else None
    if not isinstance(message, RealtimeEvent) or message.kind != "response.output_audio.delta":
        return action
    body = message.body
    return Send(
        TrackOrder(
            order="play",
            response_id=body["response_id"],
            item_id=body["item_id"],
            pcm=body["delta"],
        )
    )
