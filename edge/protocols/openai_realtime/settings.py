"""The settings of a session: their defaults, how an update changes them, and what the worker gets of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.protocols.openai import MOST_TOKENS
from antiphon.edge.protocols.openai_realtime.input import SoundInput
from antiphon.shared_schemas.config import GenerationConfig, TtsConfig, TurnsConfig, VadConfig
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, from_validation
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.openai_realtime import (
    BETA_FIELDS,
    RESPONSE_SETTINGS,
    SESSION_SETTINGS,
    RealtimeSettings,
    ResponseSettings,
)
from antiphon.shared_schemas.tools import (
    MAX_JSON_DEPTH,
    MAX_TOOL_BYTES,
    MAX_TOOLS,
    ToolDefinition,
    is_usable_object,
)

DEFAULT_VOICE = "alloy"
"""OpenAI's name for the engine's default voice."""

BETA_CODE = "beta_api_shape_disabled"

_PCM = {"type": "audio/pcm", "rate": 24000}
_SERVER_VAD = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC_VAD = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
_DETECTORS: Mapping[str, dict[str, Any]] = {
    "server_vad": _SERVER_VAD,
    "semantic_vad": _SEMANTIC_VAD,
}
_PATIENCE_MS = {"high": 500, "medium": 800, "auto": 800, "low": 1500}
"""Silence that ends an utterance, for the eagerness of `semantic_vad`."""

_ATOMIC = frozenset({"format", "tools", "tracing", "truncation", "reasoning", "tool_choice"})
"""Values that an update replaces as a whole."""

_MAX_FREE_BYTES = 16 * 1024
_MOST_BYTES: Mapping[str, int] = {
    "tools": MAX_TOOL_BYTES,
    **dict.fromkeys(("include", "noise_reduction", "reasoning"), _MAX_FREE_BYTES),
    **dict.fromkeys(("tracing", "transcription", "truncation"), _MAX_FREE_BYTES),
}
"""Of the JSON of values without a declared form: each answer has them too."""

_FORMATS = {
    "audio/pcm": AudioFormat.PCM_24K,
    "audio/pcmu": AudioFormat.PCMU,
    "audio/pcma": AudioFormat.PCMA,
}
_IGNORED = ("id", "object", "expires_at")

_Adapter = TypeAdapter[RealtimeSettings] | TypeAdapter[ResponseSettings]


@dataclass(slots=True)
class RealtimeState:
    """What the decoder and the machine of one connection share.

    `session` is what `session.created` shows; settings are replaced, never changed. Of the client's event
    that is being handled: its `event_id`, the `code` of its refusal, and whether it `is_sound` or not read yet.
    """

    session: dict[str, Any]
    record: bool = True
    on_track: bool = False
    ref_audio: bytes = field(default=b"", repr=False)
    voice: str = ""
    event_id: str | None = None
    code: str | None = None
    is_sound: bool = True
    sound: SoundInput = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.sound = SoundInput(audio_format(self.session, "input"))

    def begin_event(self) -> None:
        """A frame of the client has come."""
        self.event_id = self.code = None
        self.is_sound = True

    def refusal(self, code: str, message: str, param: str | None = None) -> InvalidInput:
        """An error with one of OpenAI's codes."""
        self.code = code
        return InvalidInput(message, field=param)

    def output_format(self, shown: Mapping[str, Any]) -> AudioFormat:
        """Of an answer with these settings, until it is encoded for the track."""
        return AudioFormat.PCM_24K if self.on_track else audio_format(shown, "output")

    @property
    def transcribes_only(self) -> bool:
        return bool(self.session["type"] == "transcription")

    def config(self, session: Mapping[str, Any] | None = None) -> TurnsConfig:
        """What the worker needs of these settings, or of the session's."""
        return worker_config(
            self.session if session is None else session, self.voice, record=self.record
        )


def new_session(
    session_id: str, model: str, expires_at: int, *, transcription: bool = False
) -> dict[str, Any]:
    """The settings before the first update."""
    audio_in: dict[str, Any] = {
        "format": dict(_PCM),
        "transcription": None,
        "noise_reduction": None,
        "turn_detection": dict(_SERVER_VAD),
    }
    session: dict[str, Any] = {
        "type": "transcription" if transcription else "realtime",
        "object": "realtime.transcription_session" if transcription else "realtime.session",
        "id": session_id,
        "expires_at": expires_at,
        "include": None,
        "audio": {"input": audio_in},
    }
    if transcription:
        audio_in["transcription"] = {"model": model} if model else {}
        return session
    session["audio"]["output"] = {"format": dict(_PCM), "voice": DEFAULT_VOICE, "speed": 1.0}
    return session | {
        "model": model,
        "instructions": DEFAULT_SYSTEM_PROMPT,
        "output_modalities": ["audio"],
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
    }


def updated_session(state: RealtimeState, update: object) -> dict[str, Any]:
    """The session's settings with an update, which it does not change. Raises InvalidInput."""
    changes = read_settings(state, SESSION_SETTINGS, update, "session")
    if changes.pop("type") != state.session["type"]:
        text = "session.type: cannot change; open a new connection for the other type"
        raise InvalidInput(text, field="session.type")
    for name in _IGNORED:
        changes.pop(name, None)
    if state.transcribes_only and (changes.keys() - {"audio", "include"}):
        name = min(changes.keys() - {"audio", "include"})
        text = f"session.{name}: not a setting of a transcription session"
        raise state.refusal("unknown_parameter", text, f"session.{name}")
    _check_tools(changes.get("tools") or (), "session")
    return merged(state.session, changes)


def updated_response(state: RealtimeState, update: object) -> dict[str, Any]:
    """The settings of one answer: the session's, and its own. Raises InvalidInput."""
    changes = read_settings(state, RESPONSE_SETTINGS, update, "response")
    _check_tools(changes.get("tools") or (), "response")
    return merged({**state.session, "conversation": "auto", "metadata": None}, changes)


def read_settings(
    state: RealtimeState, adapter: _Adapter, update: object, name: str
) -> dict[str, Any]:
    """The fields that are set. Raises InvalidInput."""
    if isinstance(update, dict):
        _refuse_beta(state, update, name)
    try:
        settings = adapter.validate_python(update)
    except ValidationError as error:
        raise _refusal(state, error, name) from None
    fields: dict[str, Any] = settings.model_dump(exclude_unset=True)
    own = {key: value for key, value in fields.items() if key != "input"}
    _refuse_unusable(own, name)
    _refuse_long(own, name)
    return fields


def _refuse_unusable(fields: Mapping[str, Any], name: str) -> None:
    """Objects without a declared form are stored inside other JSON."""
    if not is_usable_object(fields):
        text = f"{name}: nested more than {MAX_JSON_DEPTH} deep, or a text in it is too long"
        raise InvalidInput(text, field=name, code=ErrorCode.TOO_COMPLEX)


def _refuse_long(fields: Mapping[str, Any], name: str) -> None:
    for key, value in fields.items():
        field, most = f"{name}.{key}", _MOST_BYTES.get(key)
        if most is None:
            if isinstance(value, dict):
                _refuse_long(value, field)
        elif (size := _json_bytes(value, field)) > most:
            text = f"{field}: {size} bytes of JSON, at most {most}"
            raise InvalidInput(text, field=field)


def _json_bytes(value: object, field: str) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # the parser of an HTTP body makes such numbers
        text = f"{field}: a number in it has more than 64 bits"
        raise InvalidInput(text, field=field) from None


def merged(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the changes, which shares what does not change.

    Objects are merged; what is atomic, and lists, are replaced.
    """
    result = dict(current)
    for name, value in changes.items():
        before = result.get(name)
        if name == "turn_detection" and isinstance(value, dict):
            result[name] = _merged_detection(before, value)
        elif isinstance(value, dict) and isinstance(before, dict) and name not in _ATOMIC:
            result[name] = merged(before, value)
        elif value is not None or name in _NULLABLE:
            result[name] = value
    return result


_NULLABLE = frozenset(
    {
        *("turn_detection", "transcription", "noise_reduction", "tracing", "prompt", "include"),
        *("metadata", "reasoning", "input"),
    }
)
"""Null switches these off. For all others it is the same as no value."""


def _merged_detection(before: dict[str, Any] | None, change: dict[str, Any]) -> dict[str, Any]:
    kind = change.get("type") or (before or {}).get("type") or "server_vad"
    defaults = _DETECTORS[kind]
    kept = before if before and before["type"] == kind else {}
    changed = {name: value for name, value in change.items() if value is not None}
    return {**defaults, **kept, **changed, "type": kind}


def worker_config(session: Mapping[str, Any], voice: str, *, record: bool) -> TurnsConfig:
    detection = session["audio"]["input"].get("turn_detection")
    common: dict[str, Any] = {"vad": _vad(detection), "record": record}
    if session["type"] == "transcription":
        return TurnsConfig(responds=False, interruptible=False, **common)
    tokens = session["max_output_tokens"]
    most = MOST_TOKENS if tokens in (None, "inf") else min(tokens, MOST_TOKENS)
    return TurnsConfig(
        instructions=session["instructions"],
        responds=detection["create_response"] if detection else False,
        interruptible=detection["interrupt_response"] if detection else False,
        generation=GenerationConfig(max_new_tokens=most),
        tts=TtsConfig(enabled=session["output_modalities"] == ["audio"], voice=voice),
        tools=[] if session["tool_choice"] == "none" else _chat_tools(session["tools"]),
        shortens=session["truncation"] != "disabled",
        **common,
    )


def _vad(detection: Mapping[str, Any] | None) -> VadConfig | None:
    if detection is None:
        return None
    if detection["type"] == "semantic_vad":
        silence_ms = _PATIENCE_MS[detection["eagerness"]]
        return VadConfig(threshold=0.5, min_silence_duration_ms=silence_ms, speech_pad_ms=300)
    return VadConfig(
        threshold=min(max(detection["threshold"], 0.01), 0.99),
        min_silence_duration_ms=min(max(detection["silence_duration_ms"], 32), 10_000),
        speech_pad_ms=min(detection["prefix_padding_ms"], 1000),
    )


def audio_format(session: Mapping[str, Any], side: str) -> AudioFormat:
    """Of `input` or `output`."""
    return _FORMATS[session["audio"][side]["format"]["type"]]


def asked_voice(session: Mapping[str, Any]) -> str:
    """The voice that the client names."""
    voice = session["audio"].get("output", {}).get("voice") or ""
    return voice["id"] if isinstance(voice, dict) else voice


def _chat_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = ("name", "description", "parameters")
    return [
        {
            "type": "function",
            "function": {n: tool[n] for n in names if tool.get(n) is not None},
        }
        for tool in tools
    ]


def _check_tools(tools: Sequence[Mapping[str, Any]], where: str) -> None:
    if len(tools) > MAX_TOOLS:
        field = f"{where}.tools"
        raise InvalidInput(f"{field}: at most {MAX_TOOLS} tools", field=field)
    for number, tool in enumerate(tools):
        field = f"{where}.tools.{number}"
        if tool.get("type") != "function":
            text = f"{field}.type: only tools of the type `function` are supported"
            raise InvalidInput(text, field=f"{field}.type")
        try:
            ToolDefinition.model_validate(_chat_tools([tool])[0])
        except ValidationError as error:
            invalid = from_validation(error, skip=1)
            name = f"{field}.{invalid.field}" if invalid.field else field
            text = invalid.message.replace(invalid.field or "message", name, 1)
            raise InvalidInput(text, field=name, code=invalid.code) from None


def _refuse_beta(state: RealtimeState, update: Mapping[str, Any], name: str) -> None:
    for beta, new in BETA_FIELDS.items():
        if beta in update:
            remedy = f"use `{name}.{new}`" if new else "leave it out"
            text = f"{name}.{beta}: the beta form of this API is not served; {remedy}"
            raise state.refusal(BETA_CODE, text, f"{name}.{beta}")


def _refusal(state: RealtimeState, error: ValidationError, name: str) -> InvalidInput:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    invalid = from_validation(error)
    path = [part for part in first["loc"] if _is_field(part) or first["type"] == "extra_forbidden"]
    field = ".".join(map(str, [name, *path]))[:256]
    if first["type"] == "extra_forbidden":
        return state.refusal("unknown_parameter", f"Unknown parameter: '{field}'.", field)
    if invalid.code is ErrorCode.MISSING_FIELD:
        return InvalidInput(f"{field} is required", field=field, code=invalid.code)
    text = f"{field}: {invalid.message.partition(': ')[2]}"
    if first["type"] in ("none_required", "literal_error"):
        text += "; other values are not supported by this server"
    return InvalidInput(text, field=field)


def _is_field(part: int | str) -> bool:
    """Not the name of a type, which pydantic adds to the path of a value that may have several."""
    return isinstance(part, int) or (part.isidentifier() and part.islower() and part != "str")
