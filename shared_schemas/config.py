"""Settings of one conversation, as a client sends them in `prepare`."""

import zoneinfo
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

CONTEXT_TOKENS = 8192
"""Of a full-duplex session of MiniCPM-o, unless its engine says otherwise."""

USUAL_CHUNK_MS = 1000
"""Of the audio in a full-duplex session, for clients and engines that say nothing else."""

Probability = Annotated[float, Field(gt=0.0, le=1.0)]
Greeting = Annotated[str, Field(max_length=300)]


class _Options(BaseModel):
    """Unknown fields are ignored, wrong types are rejected by name."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


VoiceName = Annotated[str, Field(max_length=64)]
"""One of the engine's voices, as `/api/capabilities` lists them. Empty: the engine's default."""


def _known_time_zone(name: str) -> str:
    try:
        if name:
            zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        text = 'must be a time zone of the IANA database, such as "Europe/Berlin"'
        raise PydanticCustomError("time_zone", text) from None
    return name


TimeZone = Annotated[str, Field(max_length=64), AfterValidator(_known_time_zone)]
"""The user's time zone, for engines that tell the time. Empty: the server's."""


class DuplexConfig(_Options):
    """With `record: false`, here and in the other kinds, nothing of the session is stored on disk."""

    generate_audio: bool = True
    voice: VoiceName = ""
    time_zone: TimeZone = ""
    ls_mode: Literal["explicit", "implicit"] = "explicit"
    force_listen_count: int = Field(default=3, ge=0, le=1000)
    max_new_speak_tokens_per_chunk: int = Field(default=20, ge=1, le=200)
    temperature: float = Field(default=0.7, ge=0.0, le=2.0)
    top_k: int = Field(default=20, ge=0, le=1000)
    top_p: Probability = 0.8
    listen_prob_scale: float = Field(default=1.0, ge=0.0, le=100.0)
    length_penalty: float = Field(default=1.1, gt=0.0, le=5.0)
    decode_mode: Literal["sampling", "greedy"] = "sampling"
    text_repetition_penalty: float = Field(default=1.05, ge=1.0, le=5.0)
    text_repetition_window_size: int = Field(default=512, ge=1, le=4096)
    listen_top_k: int | None = Field(default=None, ge=1, le=1000)
    tts_temperature: float = Field(default=0.8, ge=0.0, le=2.0)
    chunk_ms: int = Field(default=USUAL_CHUNK_MS, ge=100, le=5000)
    sample_rate: Literal[16000] = 16000
    max_slice_nums: int = Field(default=1, ge=1, le=9)
    greeting: Greeting = ""
    """What the model says before the user speaks. Empty: it waits for the user."""
    interim_transcripts: bool = False
    """Send the user's words while the user speaks, and the transcript at the end, if the worker can."""
    barge_in: bool = True
    """Stop the model for the user's speech, but not for a cough, "mm-hmm" or a voice in the background."""
    check_in_s: float = Field(default=0.0, ge=0.0, le=600.0)
    """Ask whether the user is still there after so much silence, if the engine can. 0: never."""
    end_on_goodbye: bool = False
    """Mark the result in which the answer to a goodbye ends, so that the client can hang up."""
    record: bool = True


class VadConfig(_Options):
    """Voice activity detection; durations in milliseconds."""

    threshold: float = Field(default=0.8, gt=0.0, lt=1.0)
    min_speech_duration_ms: int = Field(default=128, ge=0, le=10_000)
    min_silence_duration_ms: int = Field(default=800, ge=32, le=10_000)
    speech_pad_ms: int = Field(default=30, ge=0, le=1000)


class GenerationConfig(_Options):
    """Generation of an answer."""

    max_new_tokens: int = Field(default=256, ge=1, le=4096)
    length_penalty: float = Field(default=1.1, gt=0.0, le=5.0)
    temperature: float = Field(default=0.7, ge=0.0, le=2.0)
    top_p: Probability = 0.8
    top_k: int | None = Field(default=None, ge=0, le=1000)
    """None: the engine's own value. 0: no limit."""


class TtsConfig(_Options):
    """Whether an answer is spoken, and with which of the engine's voices."""

    enabled: bool = True
    voice: VoiceName = ""


class HalfDuplexSessionConfig(_Options):
    """Limits of a half-duplex session, seconds."""

    timeout_s: float = Field(default=180.0, gt=0.0, le=3600.0)


class HalfDuplexConfig(_Options):
    """The `config` of a half-duplex session."""

    vad: VadConfig = VadConfig()
    generation: GenerationConfig = GenerationConfig()
    tts: TtsConfig = TtsConfig()
    session: HalfDuplexSessionConfig = HalfDuplexSessionConfig()
    greeting: Greeting = ""
    """What the model says before the user speaks. Empty: it waits for the user."""
    interim_transcripts: bool = False
    """As in DuplexConfig."""
    barge_in: bool = False
    """As in DuplexConfig. Without it, speech of the user during an answer is ignored."""
    end_on_goodbye: bool = False
    """As in DuplexConfig."""
    time_zone: TimeZone = ""
    record: bool = True


class ChatOptions(_Options):
    """The options of a chat request, as stored in the stream."""

    streaming: bool = True
    generation: GenerationConfig = GenerationConfig()
    tts: TtsConfig = TtsConfig(enabled=False)
    max_slice_nums: int | None = Field(default=None, ge=1, le=9)
    omni_mode: bool = False
    enable_thinking: bool = False
    use_tts_template: bool = False
    time_zone: TimeZone = ""
    record: bool = True
    task: Literal["answer", "transcribe", "read_aloud"] = "answer"
    """What becomes of the last message: an answer, its words, or the text itself as speech."""
    language: str = ""
    """The code of the language that is transcribed. Empty: not stated."""
    tools: list[dict[str, Any]] = []
    """Definitions in the form of OpenAI's API, as the model's template takes them."""
    needs_tools: bool = True
    """A model without tools refuses them. If false, it ignores them and those of the history."""
    must_call: bool = False
    """The answer is a call of a tool. For engines whose info has `forces_calls`."""


class TurnsConfig(_Options):
    """The settings of a session of the kind `turns`, and of one of its answers."""

    instructions: str = ""
    vad: VadConfig | None = VadConfig(threshold=0.5, min_silence_duration_ms=500, speech_pad_ms=300)
    """None: the client says where an utterance ends."""
    responds: bool = True
    """Answer an utterance whose end was detected."""
    interruptible: bool = True
    """Speech of the user ends an answer."""
    generation: GenerationConfig = GenerationConfig()
    tts: TtsConfig = TtsConfig()
    tools: list[dict[str, Any]] = []
    shortens: bool = True
    """Leave out the oldest items if the conversation is too long for the model."""
    record: bool = True


Recordable = TypeVar("Recordable", DuplexConfig, HalfDuplexConfig)


def with_consent(config: Recordable, *, given: bool) -> Recordable:
    """The settings, with `record` turned off unless consent is given."""
    return config if given else config.model_copy(update={"record": False})
