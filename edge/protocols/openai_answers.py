"""Answers of OpenAI's HTTP API: what a worker sends becomes the body of a response."""

import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pybase64
from msgspec import structs

from antiphon.edge.errors import Fault, openai_error, openai_status
from antiphon.edge.media.sound_files import MEDIA_TYPES, SoundEncoder, encode_sound
from antiphon.shared_schemas.audio import PcmFormat, pcm16_bytes, samples_from_bytes
from antiphon.shared_schemas.entries import ChatDoneOut, DeltaOut
from antiphon.shared_schemas.messages.openai import CompletionRequest, TranscriptionRequest

_LANGUAGES = {"en": "english", "zh": "chinese"}
_CHINESE = re.compile("[\u4e00-\u9fff]")

_NOT_MEASURED: Mapping[str, Any] = {
    "seek": 0,
    "tokens": [],
    "temperature": 0.0,
    "avg_logprob": 0.0,
    "compression_ratio": 1.0,
    "no_speech_prob": 0.0,
}
"""Fields of a segment that clients require. These values mark no segment as doubtful."""

Piece = bytes | Callable[[], bytes]
"""A part of the body of a response, or what makes it, in a thread."""

JSON_TYPE, EVENTS_TYPE = "application/json", "text/event-stream"
_TRANSCRIPT_TYPES = {
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}


def encode_event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _event(content: Any) -> bytes:
    return encode_event(orjson.dumps(content))


def encode_openai_error(fault: Fault) -> tuple[int, bytes]:
    """The status and the body that report a fault."""
    error = fault.message
    status = openai_status(error.code)
    return status, orjson.dumps(openai_error(status, error.code, error.message, error.field))


class OpenAiAnswer(ABC):
    """The body of a response: what it begins with is sent while the worker makes the rest."""

    media_type = JSON_TYPE

    def delta(self, entry: DeltaOut) -> Sequence[Piece]:  # noqa: ARG002 - most answers have no parts
        return ()

    @abstractmethod
    def done(self, entry: ChatDoneOut) -> Sequence[Piece]: ...

    def explain(self, fault: Fault) -> Fault:
        """A fault of the worker in the words of this route."""
        return fault


class CompletionAnswer(OpenAiAnswer):
    """Of `/v1/chat/completions`."""

    def __init__(self, request: CompletionRequest, most_tokens: int) -> None:
        self._asked = request
        self._most_tokens = most_tokens
        self._streaming = bool(request.stream)
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._said_role = False
        if self._streaming:
            self.media_type = EVENTS_TYPE

    @property
    def _include_usage(self) -> bool:
        options = self._asked.stream_options
        return options is not None and bool(options.include_usage)

    def delta(self, entry: DeltaOut) -> Sequence[Piece]:
        return self._deltas(entry) if self._streaming else ()

    def explain(self, fault: Fault) -> Fault:
        """The worker names fields of `/ws/chat`."""
        message = fault.message
        if message.field == "tts.voice":
            text = message.message.replace("tts.voice", "audio.voice")
            message = structs.replace(message, message=text, field="audio.voice")
        return replace(fault, message=message)

    def _deltas(self, entry: DeltaOut) -> list[bytes]:
        spoken = self._asked.audio is not None and "audio" in (self._asked.modalities or ())
        pieces = []
        if entry.text_delta:
            text = entry.text_delta
            said = {"audio": {"id": self._id, "transcript": text}} if spoken else {"content": text}
            pieces.append(self._chunk(said))
        if entry.audio:
            pcm = pcm16_bytes(samples_from_bytes(entry.audio, PcmFormat.F32))
            sound = {"id": self._id, "data": pybase64.b64encode_as_string(pcm)}
            pieces.append(self._chunk({"audio": sound}))
        return pieces

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        if not self._said_role:
            self._said_role = True
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event(self._body("chat.completion.chunk", [choice], None))

    def _body(
        self, kind: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        body = {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._asked.model,
            "choices": choices,
        }
        if usage is not None or self._include_usage:
            body["usage"] = usage
        return body

    def _calls(self, entry: ChatDoneOut) -> list[dict[str, Any]]:
        one = self._asked.parallel_tool_calls is False
        return entry.tool_calls[:1] if one else entry.tool_calls

    def done(self, entry: ChatDoneOut) -> Sequence[Piece]:
        calls = self._calls(entry)
        cut = entry.generated_tokens >= self._most_tokens
        finish = "tool_calls" if calls else "length" if cut else "stop"
        if self._streaming:
            return self._stream_end(entry, calls, finish)
        message: dict[str, Any] = {"role": "assistant", "content": entry.text, "refusal": None}
        if calls:
            message["tool_calls"] = calls
            message["content"] = entry.text or None
        return [partial(self._unstreamed, message, finish, entry)]

    def _stream_end(
        self, entry: ChatDoneOut, calls: list[dict[str, Any]], finish: str
    ) -> list[bytes]:
        pieces = []
        if calls:
            numbered = [{"index": n, **call} for n, call in enumerate(calls)]
            pieces.append(self._chunk({"tool_calls": numbered}))
        pieces.append(self._chunk({}, finish))
        if self._include_usage:
            pieces.append(_event(self._body("chat.completion.chunk", [], usage_of(entry))))
        return [*pieces, encode_event(b"[DONE]")]

    def _unstreamed(self, message: dict[str, Any], finish: str, entry: ChatDoneOut) -> bytes:
        if entry.audio and self._asked.audio:
            form = self._asked.audio.format.removesuffix("16")
            file = encode_sound(form, entry.audio)
            message["audio"] = {
                "id": self._id,
                "data": pybase64.b64encode_as_string(file),
                "expires_at": self._created,
                "transcript": entry.text,
            }
            message["content"] = None
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return orjson.dumps(self._body("chat.completion", [choice], usage_of(entry)))


def usage_of(entry: ChatDoneOut) -> dict[str, Any]:
    read, made, counts = entry.input_tokens, entry.generated_tokens, entry.usage
    audio_in = audio_out = 0
    if counts is not None:
        read = counts.read
        made = (counts.output_text or made) + counts.output_audio  # a rule has no counts
        audio_in, audio_out = counts.input_audio, counts.output_audio
    return {
        "prompt_tokens": read,
        "completion_tokens": made,
        "total_tokens": read + made,
        "prompt_tokens_details": {"audio_tokens": audio_in, "cached_tokens": 0},
        "completion_tokens_details": {"audio_tokens": audio_out, "reasoning_tokens": 0},
    }


class SpeechAnswer(OpenAiAnswer):
    """A file of `/v1/audio/speech`, sent as it is made."""

    def __init__(self, form: str) -> None:
        self._encoder = SoundEncoder(form)
        self.media_type = MEDIA_TYPES[form]

    def delta(self, entry: DeltaOut) -> Sequence[Piece]:
        return [partial(self._encoder.feed, entry.audio)]

    def done(self, entry: ChatDoneOut) -> Sequence[Piece]:  # noqa: ARG002
        return [self._encoder.end]


class TranscriptionAnswer(OpenAiAnswer):
    """Of `/v1/audio/transcriptions`. `seconds`: length of the sound."""

    def __init__(self, request: TranscriptionRequest, seconds: float) -> None:
        self._asked = request
        self._seconds = seconds
        kind = _TRANSCRIPT_TYPES.get(request.response_format, JSON_TYPE)
        self.media_type = EVENTS_TYPE if request.stream else kind

    def done(self, entry: ChatDoneOut) -> Sequence[Piece]:
        usage = {"type": "duration", "seconds": round(self._seconds, 3)}
        if self._asked.stream:
            delta = _event({"type": "transcript.text.delta", "delta": entry.text})
            return [delta, _event({"type": "transcript.text.done", "text": entry.text})]
        form = self._asked.response_format
        if form in _TRANSCRIPT_TYPES:
            text = entry.text if form == "text" else subtitles(form, entry.segments)
            return [f"{text}\n".encode()]
        body: dict[str, Any] = {"text": entry.text, "usage": usage}
        if form == "verbose_json":
            body |= self._details(entry)
        return [orjson.dumps(body)]

    def _details(self, entry: ChatDoneOut) -> dict[str, Any]:
        segments = entry.segments
        # The worker that took the request hears one of the two.
        language = self._asked.language or ("zh" if _CHINESE.search(entry.text) else "en")
        found: dict[str, Any] = {
            "task": "transcribe",
            "language": _LANGUAGES.get(language, language),
            "duration": self._seconds,
        }
        granularities = self._asked.timestamp_granularities or ["segment"]
        if "segment" in granularities:
            found["segments"] = [
                {
                    "id": n,
                    "start": part["start"],
                    "end": part["end"],
                    "text": part["text"],
                    **_NOT_MEASURED,
                }
                for n, part in enumerate(segments)
            ]
        if "word" in granularities:
            found["words"] = [word for part in segments for word in part["words"]]
        return found


def subtitles(form: str, segments: Sequence[dict[str, Any]]) -> str:
    """Segments as SubRip (`srt`) or WebVTT (`vtt`), without the last line break."""
    mark = "," if form == "srt" else "."
    cues = []
    for number, part in enumerate(segments, 1):
        times = f"{_clock(part['start'], mark)} --> {_clock(part['end'], mark)}"
        text = part["text"].replace("-->", "->")  # ends a cue
        cues.append(f"{number}\n{times}\n{text}\n" if form == "srt" else f"{times}\n{text}\n")
    return "\n".join(cues if form == "srt" else ["WEBVTT\n", *cues])


def _clock(seconds: float, mark: str) -> str:
    minutes, millis = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{millis // 1000:02}{mark}{millis % 1000:03}"
