"""The input of a recorded session, step by step, so that it can be sent again."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pybase64 import b64encode_as_string

from antiphon.cli.common import CannotLoad
from antiphon.cli.local_recordings import LoadedRecording, load_pcm, read_file
from antiphon.cli.replay.compare import ReplayOutcome
from antiphon.shared_schemas.audio import Samples, float_bytes
from antiphon.shared_schemas.config import DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    ToolCall,
    VideoPart,
)
from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts
from antiphon.shared_schemas.recording import (
    ChunkRecord,
    DuplexRecording,
    MessageRecord,
    PartRecord,
    TurnRecord,
    TurnRecording,
)
from antiphon.shared_schemas.states import SessionKind

_LONGEST_GAP_S = 3.0
"""A longer silence between two chunks was a pause; the replay shortens it."""

_CHAT_SWITCHES = ("omni_mode", "enable_thinking", "use_tts_template")


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One chunk of a full-duplex session, or one utterance of a half-duplex one.

    `at_s` counts from the first step; `recorded` is the answer in the recording, None without one.
    """

    index: int
    at_s: float
    audio: Path
    recorded: ReplayOutcome | None
    frames: tuple[Path, ...] = ()
    force_listen: bool = False

    def samples(self) -> Samples:
        """The audio as it was sent, except for rounding to 16 bits. Raises CannotLoad."""
        return load_pcm(self.audio)

    def images(self) -> list[bytes]:
        """Raises CannotLoad."""
        return [read_file(path) for path in self.frames]


@dataclass(frozen=True, slots=True)
class DuplexPlan:
    """A full-duplex session. References are at 16 kHz, None if there were none.

    `cut_off`: the recording ended during an answer, so the rest of the answer is unknown.
    """

    with_video: bool
    prompt: str
    config: DuplexConfig
    ref_audio: Samples | None
    tts_ref_audio: Samples | None
    steps: tuple[ReplayStep, ...]
    cut_off: bool


@dataclass(frozen=True, slots=True)
class HalfDuplexPlan:
    """A half-duplex session. `system` is a sequence of texts and sounds."""

    system: tuple[str | Samples, ...]
    config: HalfDuplexConfig
    ref_audio: Samples | None
    steps: tuple[ReplayStep, ...]


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """The arguments of a chat request, and its recorded answer."""

    request: dict[str, Any]
    recorded: ReplayOutcome


ReplayPlan = DuplexPlan | HalfDuplexPlan | ChatPlan


def plan_replay(recording: LoadedRecording) -> ReplayPlan:
    """The plan for the recording's kind; the replay itself is not recorded.

    Raises CannotLoad if there is nothing to play, if a reference is missing, while the session runs, and
    for a session of OpenAI's Realtime API, whose items and tools no recording can send again.
    """
    match recording.timeline:
        case DuplexRecording() as timeline:
            return _duplex_plan(recording.folder, timeline)
        case TurnRecording(mode="chat") as timeline:
            return _chat_plan(recording.folder, timeline)
        case TurnRecording(app_type=SessionKind.TURNS):
            name = recording.folder.name
            raise CannotLoad(f"{name} is a session of OpenAI's Realtime API: it cannot be replayed")
        case TurnRecording() as timeline:
            return _half_duplex_plan(recording.folder, timeline)
    name = recording.folder.name
    raise CannotLoad(f"{name} is still being recorded; try again when it is over")


def _duplex_plan(folder: Path, recording: DuplexRecording) -> DuplexPlan:
    steps = tuple(_steps(folder, recording.chunks))
    if not steps:
        raise CannotLoad(f"{recording.recording_id} holds no sound to play")
    config = recording.config
    return DuplexPlan(
        with_video=recording.app_type is SessionKind.OMNI_DUPLEX,
        prompt=str(config.get("system_prompt", "")),
        config=DuplexConfig.model_validate(config).model_copy(update={"record": False}),
        ref_audio=_reference(folder, config.get("ref_audio")),
        tts_ref_audio=_reference(folder, config.get("tts_ref_audio")),
        steps=steps,
        cut_off=_is_cut_off(recording.chunks),
    )


def _steps(folder: Path, chunks: list[ChunkRecord]) -> Iterator[ReplayStep]:
    """Omits chunks that the worker skipped: the engine did not process them."""
    at_s, last_ms = 0.0, None
    for chunk in chunks:
        if last_ms is not None:
            at_s += _gap_s(chunk.receive_ts_ms - last_ms, chunk)
        last_ms = chunk.receive_ts_ms
        if chunk.user_audio is None or chunk.skipped:
            continue
        frames = chunk.user_frames or ([chunk.user_frame] if chunk.user_frame else [])
        yield ReplayStep(
            index=chunk.index,
            at_s=at_s,
            audio=folder / chunk.user_audio,
            recorded=_unit_outcome(chunk),
            frames=tuple(folder / name for name in frames),
            force_listen=bool(chunk.force_listen),
        )


def _gap_s(gap_ms: float, chunk: ChunkRecord) -> float:
    pause = gap_ms > _LONGEST_GAP_S * 1000
    usual_ms = chunk.user_audio_duration_ms or 0
    return max(0.0, usual_ms if pause else gap_ms) / 1000


def _unit_outcome(chunk: ChunkRecord) -> ReplayOutcome | None:
    if (unit := chunk.result) is None:
        return None
    return ReplayOutcome(unit.mode == "SPEAK", unit.text or "", unit.timing.wall_clock_ms)


def _is_cut_off(chunks: list[ChunkRecord]) -> bool:
    units = [chunk.result for chunk in chunks if chunk.result is not None]
    return bool(units) and units[-1].mode == "SPEAK" and not units[-1].end_of_turn


def _half_duplex_plan(folder: Path, recording: TurnRecording) -> HalfDuplexPlan:
    config = recording.config
    steps = tuple(
        ReplayStep(turn.index, turn.request_ts_ms / 1000, folder / audio, _turn_outcome(turn))
        for turn in recording.turns
        if (audio := turn.input.audio) is not None
    )
    if not steps:
        raise CannotLoad(f"{recording.recording_id} holds no utterance to play")
    sounds = [name for name in config.get("system_media", ()) if name.endswith(".wav")]
    return HalfDuplexPlan(
        system=(str(config.get("system_prompt", "")), *(load_pcm(folder / n) for n in sounds)),
        config=HalfDuplexConfig.model_validate(config).model_copy(update={"record": False}),
        ref_audio=_reference(folder, config.get("ref_audio")),
        steps=steps,
    )


def _chat_plan(folder: Path, recording: TurnRecording) -> ChatPlan:
    turn = next(iter(recording.turns), None)
    if turn is None or not turn.input.messages:
        raise CannotLoad(f"{recording.recording_id} holds no request to make")
    config = recording.config
    reference = _reference(folder, config.get("ref_audio"))
    voice = None if reference is None else b64encode_as_string(float_bytes(reference))
    tts = config.get("tts", {})
    options: dict[str, Any] = {name: config.get(name, False) for name in _CHAT_SWITCHES}
    options["time_zone"] = config.get("time_zone", "")
    if config.get("max_slice_nums") is not None:
        options["image"] = {"max_slice_nums": config["max_slice_nums"]}
    if config.get("tools"):
        options["tools"] = config["tools"]
    request = {
        "history": [_message(folder, message) for message in turn.input.messages],
        "generation": ChatGeneration.model_validate(config.get("generation", {})),
        "tts": ChatTts(
            enabled=tts.get("enabled", False), voice=tts.get("voice", ""), ref_audio_data=voice
        ),
        "options": options | {"record": False},
    }
    return ChatPlan(request, _turn_outcome(turn))


def _reference(folder: Path, name: Any) -> Samples | None:
    return load_pcm(folder / name) if name else None


def _turn_outcome(turn: TurnRecord) -> ReplayOutcome:
    return ReplayOutcome(not turn.failed, turn.output.text, turn.timing.elapsed_ms)


def _message(folder: Path, message: MessageRecord) -> ConversationMessage:
    parts = tuple(_part(folder, part) for part in message.parts)
    calls = tuple(ToolCall.of_wire(call) for call in message.tool_calls or ())
    return ConversationMessage(Role(message.role), parts, calls, message.tool_call_id or "")


def _part(folder: Path, part: PartRecord) -> Part:
    if part.type == "text":
        return TextPart(part.text or "")
    if part.file is None:
        raise CannotLoad(f"a part of the request ({part.type}) was not recorded: {part.unreadable}")
    path = folder / part.file
    if part.type == "audio":
        return AudioPart(float_bytes(load_pcm(path)))
    content = read_file(path)
    return (
        ImagePart(content) if part.type == "image" else VideoPart(content, part.stack_frames or 1)
    )
