"""What was asked in a recorded half-duplex or chat session, so that it can be asked again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pybase64 import b64encode_as_string

from antiphon.cli.comparison import Said
from antiphon.cli.score import load_pcm, load_reference, read_file
from antiphon.cli.stored import NotStored
from antiphon.shared_schemas.audio import Samples, float_bytes
from antiphon.shared_schemas.chat_messages import ChatGeneration, ChatTts
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.recording import MessageRecord, PartRecord, TurnRecord, TurnRecording

_CHAT_OPTIONS = ("omni_mode", "enable_thinking", "use_tts_template")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance of a half-duplex session, as the worker cut it out, and how it was answered then."""

    index: int
    at_s: float
    audio: Path
    was: Said

    def samples(self) -> Samples:
        """Its sound. Raises NotStored."""
        return load_pcm(self.audio)


@dataclass(frozen=True, slots=True)
class HalfDuplexScore:
    """A half-duplex session to be held again. `system`: texts and sounds in a row."""

    recording: str
    system: tuple[str | Samples, ...]
    config: HalfDuplexConfig
    ref_audio: Samples | None
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class ChatScore:
    """A chat request to be made again, and its answer then."""

    recording: str
    history: tuple[Message, ...]
    generation: ChatGeneration
    tts: ChatTts
    options: dict[str, Any]
    was: Said


def half_duplex_score(folder: Path, recording: TurnRecording) -> HalfDuplexScore:
    """Raises NotStored when there is nothing to play, or its sound is gone."""
    config = recording.config
    utterances = tuple(
        Utterance(turn.index, turn.request_ts_ms / 1000, folder / turn.input.audio, _said(turn))
        for turn in recording.turns
        if turn.input.audio is not None
    )
    if not utterances:
        raise NotStored(f"{recording.recording_id} holds no utterance to play")
    sounds = [
        load_pcm(folder / name) for name in config.get("system_media", ()) if name.endswith(".wav")
    ]
    return HalfDuplexScore(
        recording=recording.recording_id,
        system=(str(config.get("system_prompt", "")), *sounds),
        config=HalfDuplexConfig.model_validate(config).model_copy(update={"record": False}),
        ref_audio=load_reference(folder, config.get("ref_audio")),
        utterances=utterances,
    )


def chat_score(folder: Path, recording: TurnRecording) -> ChatScore:
    """Raises NotStored when the request was not recorded, or its media are gone."""
    turn = next(iter(recording.turns), None)
    if turn is None or not turn.input.messages:
        raise NotStored(f"{recording.recording_id} holds no request to make")
    config = recording.config
    reference = load_reference(folder, config.get("ref_audio"))
    tts = ChatTts(
        enabled=config.get("tts", {}).get("enabled", False),
        ref_audio_data=None if reference is None else b64encode_as_string(float_bytes(reference)),
    )
    options: dict[str, Any] = {name: config.get(name, False) for name in _CHAT_OPTIONS}
    if config.get("max_slice_nums") is not None:
        options["image"] = {"max_slice_nums": config["max_slice_nums"]}
    return ChatScore(
        recording=recording.recording_id,
        history=tuple(_message(folder, message) for message in turn.input.messages),
        generation=ChatGeneration.model_validate(config.get("generation", {})),
        tts=tts,
        options=options | {"record": False},
        was=_said(turn),
    )


def _said(turn: TurnRecord) -> Said:
    return Said(not turn.failed, turn.output.text, turn.timing.elapsed_ms)


def _message(folder: Path, message: MessageRecord) -> Message:
    return Message(Role(message.role), tuple(_part(folder, part) for part in message.parts))


def _part(folder: Path, part: PartRecord) -> Part:
    if part.type == "text":
        return TextPart(part.text or "")
    if part.file is None:
        raise NotStored(f"a part of the request ({part.type}) was not recorded: {part.unreadable}")
    path = folder / part.file
    match part.type:
        case "audio":
            return AudioPart(float_bytes(load_pcm(path)))
        case "image":
            return ImagePart(read_file(path))
    return VideoPart(read_file(path), part.stack_frames or 1)
