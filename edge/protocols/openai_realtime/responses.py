"""The events of one answer."""

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.edge.media.audio_formats import AudioFormat, FormatEncoder
from antiphon.edge.protocols.openai_realtime.events import (
    RealtimeEvent,
    error_kind,
    error_name,
    event,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.entries import DeltaOut, ErrorOut, GeneratingOut, TurnDoneOut
from antiphon.shared_schemas.entries.turns import call_item_id

_DELTA_SAMPLES = OUTPUT_RATE * 2 // 5
"""Clients expect deltas of 100 to 400 ms, and some of them no message above 1 MiB."""


class RealtimeResponse:
    """One answer as the client sees it, with sound in `sound_format`. `shown`: its settings; `error`: why it
    has failed; `cancelled`: its client has asked for the end.

    The items of an answer outside of the conversation are shown in its own events only.
    """

    def __init__(
        self, response_id: str, shown: Mapping[str, Any], sound_format: AudioFormat
    ) -> None:
        self.id = response_id
        self.in_conversation = shown.get("conversation", "auto") != "none"
        self.announced = False
        self.cancelled = False
        self.error: ErrorOut | None = None
        self.message: dict[str, Any] | None = None
        self.audio_ms = 0
        self._shown = shown
        self._item_id = ""
        self._output: list[dict[str, Any]] = []
        self._text = ""
        self._samples = 0
        self._spoken = shown["output_modalities"] == ["audio"]
        self._encoder = FormatEncoder(sound_format)
        self._previous: str | None = None

    @property
    def is_active(self) -> bool:
        """No other answer of the conversation may begin."""
        return self.in_conversation and not self.cancelled

    def announce(self, began: GeneratingOut | None = None) -> Iterator[RealtimeEvent]:
        """Once. `began`: a worker begins to generate it."""
        if began is not None:
            self._item_id = began.item_id
        if not self.announced:
            self.announced = True
            yield event("response.created", response=self._body("in_progress"))

    def delta(self, entry: DeltaOut, previous: str | None) -> Iterator[RealtimeEvent]:
        """`previous`: the item before it in the conversation."""
        if not (entry.text_delta or (entry.audio and self._spoken)):
            return
        if self.message is None:
            yield from self._begin_message(previous)
        if entry.text_delta:
            self._text += entry.text_delta
            name = "output_audio_transcript" if self._spoken else "output_text"
            yield self._part_event(f"{name}.delta", delta=entry.text_delta)
        if not (entry.audio and self._spoken):
            return
        samples = samples_from_bytes(entry.audio, PcmFormat.F32)
        self._samples += len(samples)
        self.audio_ms = self._samples * 1000 // OUTPUT_RATE
        for start in range(0, len(samples), _DELTA_SAMPLES):
            data = self._encoder.encode(samples[start : start + _DELTA_SAMPLES])
            yield self._part_event("output_audio.delta", delta=data)

    def items(self, entry: TurnDoneOut) -> Iterator[dict[str, Any]]:
        """The calls of functions that it ends with."""
        for number, call in enumerate(entry.tool_calls):
            function = call["function"]
            yield {
                "id": call_item_id(self._item_id, number),
                "object": "realtime.item",
                "type": "function_call",
                "status": "completed",
                "call_id": call["id"],
                "name": function["name"],
                "arguments": function["arguments"],
            }

    def end_message(self, entry: TurnDoneOut) -> Iterator[RealtimeEvent]:
        """If it has said anything."""
        if self.message is None:
            return
        part = self.message["content"][0]
        if self._spoken:
            part["transcript"] = self._text
            yield self._part_event("output_audio.done")
            yield self._part_event("output_audio_transcript.done", transcript=self._text)
            shown_part = {"type": "audio", "transcript": self._text}
        else:
            part["text"] = self._text
            yield self._part_event("output_text.done", text=self._text)
            shown_part = {"type": "text", "text": self._text}
        yield self._part_event("content_part.done", part=shown_part)
        whole = not (entry.stopped or entry.failed or entry.reason)
        self.message["status"] = "completed" if whole else "incomplete"
        yield from self._end_item(self.message)

    def call(self, item: dict[str, Any], previous: str | None) -> Iterator[RealtimeEvent]:
        """A function that the client shall call."""
        about = {"response_id": self.id, "item_id": item["id"], "output_index": len(self._output)}
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield from self._begin_item(begun, previous)
        arguments, about = item["arguments"], {**about, "call_id": item["call_id"]}
        name = "response.function_call_arguments"
        yield event(f"{name}.delta", **about, delta=arguments)
        yield event(f"{name}.done", **about, name=item["name"], arguments=arguments)
        yield from self._end_item(item)

    def done(self, entry: TurnDoneOut) -> Iterator[RealtimeEvent]:
        """The last events."""
        status = "completed"
        details: dict[str, Any] | None = None
        if entry.failed:
            status, details = "failed", {"type": "failed", "error": self._problem()}
        elif entry.stopped or entry.reason:
            status = "cancelled" if entry.stopped else "incomplete"
            details = {"type": status, "reason": entry.reason}
        body = self._body(status, details) | {"usage": usage(entry)}
        yield event("response.done", response=body)
        yield event("rate_limits.updated", rate_limits=[])

    def _problem(self) -> dict[str, Any]:
        if self.error is None:
            return {"type": "server_error", "code": "inference_error", "message": "no answer"}
        kind, code = error_kind(self.error.code), error_name(self.error.code)
        return {"type": kind, "code": code, "message": self.error.message}

    def _begin_message(self, previous: str | None) -> Iterator[RealtimeEvent]:
        empty = (
            {"type": "audio", "transcript": ""} if self._spoken else {"type": "text", "text": ""}
        )
        self.message = {
            "id": self._item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [{**empty, "type": f"output_{empty['type']}"}],
        }
        yield from self._begin_item({**self.message, "content": []}, previous)
        yield self._part_event("content_part.added", part=empty)

    def _begin_item(self, item: dict[str, Any], previous: str | None) -> Iterator[RealtimeEvent]:
        about = {"response_id": self.id, "output_index": len(self._output)}
        yield event("response.output_item.added", **about, item=item)
        if self.in_conversation:
            self._previous = previous
            yield event("conversation.item.added", item=item, previous_item_id=previous)

    def _end_item(self, item: dict[str, Any]) -> Iterator[RealtimeEvent]:
        about = {"response_id": self.id, "output_index": len(self._output)}
        self._output.append(item)
        if self.in_conversation:
            yield event("conversation.item.done", item=item, previous_item_id=self._previous)
        yield event("response.output_item.done", **about, item=item)

    def _part_event(self, name: str, **body: Any) -> RealtimeEvent:
        assert self.message is not None
        return event(
            f"response.{name}",
            response_id=self.id,
            item_id=self.message["id"],
            output_index=0,
            content_index=0,
            **body,
        )

    def _body(self, status: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
        shown = self._shown
        audio_out = {name: shown["audio"]["output"][name] for name in ("format", "voice")}
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": list(self._output),
            "conversation_id": f"conv_{shown['id']}" if self.in_conversation else None,
            "output_modalities": shown["output_modalities"],
            "max_output_tokens": shown["max_output_tokens"],
            "audio": {"output": audio_out},
            "usage": None,
            "metadata": shown.get("metadata"),
        }


def usage(entry: TurnDoneOut) -> dict[str, Any]:
    """Tokens, as far as the engine counts them."""
    read, made, counts = entry.input_tokens, entry.n_tokens, entry.usage
    audio_in = images_in = audio_out = 0
    if counts is not None:
        read, made = counts.read, counts.generated
        audio_in, images_in = counts.input_audio, counts.input_vision
        audio_out = counts.output_audio
    return {
        "total_tokens": read + made,
        "input_tokens": read,
        "output_tokens": made,
        "input_token_details": {
            "text_tokens": read - audio_in - images_in,
            "audio_tokens": audio_in,
            "image_tokens": images_in,
            "cached_tokens": 0,
            "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": made - audio_out, "audio_tokens": audio_out},
    }
