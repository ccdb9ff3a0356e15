"""Half-duplex and chat conversations as stream entries, for the recorder's tests."""

import io
from typing import Any

from msgspec import structs
from PIL import Image

from antiphon.shared_schemas.audio import PcmFormat, float_bytes, to_pcm16
from antiphon.shared_schemas.config import (
    ChatOptions,
    GenerationConfig,
    HalfDuplexConfig,
    VadConfig,
)
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
    VideoPart,
    flatten,
)
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    DeltaOut,
    Entry,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    PrefillDoneOut,
    PreparedOut,
    StopIn,
    StoppedOut,
    StreamPosition,
    TurnDoneOut,
    VadOut,
)
from support.recorder_conversations import Script, sound

MOVIE = b"\x00\x00\x00\x18ftypmp42 a short film"
T0 = 1_700_000_000_000.0


def picture(form: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3), (200, 10, 30)).save(file, form)
    return file.getvalue()


def half_prepare(**more: Any) -> HalfDuplexPrepareIn:
    """A prepare with a reference voice and audio in the system message."""
    parts = (TextPart("Be kind."), AudioPart(float_bytes(sound(70, 300))), TextPart("Be brief."))
    content, blobs = flatten([ConversationMessage(Role.SYSTEM, parts)])
    config = HalfDuplexConfig(vad=VadConfig(threshold=0.5))
    voice = float_bytes(sound(77, 800))
    return HalfDuplexPrepareIn(content=content, blobs=blobs, config=config, ref_audio=voice, **more)


def chat_request(**more: Any) -> ChatIn:
    first = (TextPart("What is"), AudioPart(float_bytes(sound(1, 1600))), ImagePart(picture("PNG")))
    last = (
        *(ImagePart(picture("JPEG")), ImagePart(picture("WEBP")), VideoPart(MOVIE, 2)),
        *(AudioPart(to_pcm16(sound(2, 801)).tobytes(), PcmFormat.S16), TextPart("And this?")),
    )
    content, blobs = flatten(
        [
            ConversationMessage(Role.SYSTEM, (TextPart("Be brief."),)),
            ConversationMessage(Role.USER, first),
            ConversationMessage(Role.ASSISTANT, (TextPart("A tree."),)),
            ConversationMessage(Role.USER, last),
        ]
    )
    options = ChatOptions(generation=GenerationConfig(max_new_tokens=99))
    return ChatIn(content=content, blobs=blobs, options=options, **more)


def generating(index: int, input_n: int, **more: Any) -> GeneratingOut:
    """An utterance of slightly more than 100 ms."""
    audio = float_bytes(sound(500 + index, 1601 + index))
    return GeneratingOut(
        input_n=input_n, turn_index=index, speech_duration_ms=90, audio=audio, **more
    )


def delta(seed: int, n: int = 1200, **more: Any) -> DeltaOut:
    """A word with `n` samples of audio."""
    return DeltaOut(text_delta=f"w{seed} ", audio=float_bytes(sound(600 + seed, n)), **more)


def turn_done(index: int, input_n: int, text: str, **more: Any) -> TurnDoneOut:
    costs: dict[str, Any] = {"n_tokens": 5, "cost_all_ms": 123.456, "kv_cache_length": 200 + index}
    memo = {"user": f"question {index}", "tokens": [1, 2]}
    values = {**costs, "memo": memo, **more}
    return TurnDoneOut(input_n=input_n, turn_index=index, text=text, **values)


def chat_done(text: str, **more: Any) -> ChatDoneOut:
    return ChatDoneOut(text=text, generated_tokens=7, input_tokens=42, duration_ms=321.98, **more)


def half_duplex_talk() -> list[tuple[str, Entry]]:
    """Four turns: one complete, one interrupted, one failed, and one that a stop leaves unfinished."""
    quiet = ChunkIn(audio=float_bytes(sound(3, 1600)))
    return [
        *(("in", half_prepare()), ("out", PreparedOut(input_n=1, prompt_length=12))),
        *(("in", quiet), ("out", VadOut(input_n=2, speaking=True)), ("in", quiet)),
        *(("out", VadOut(input_n=3, speaking=False)), ("out", generating(0, 3))),
        *(("out", delta(0)), ("out", DeltaOut(text_delta="and ")), ("out", delta(1, 777))),
        *(("in", quiet), ("out", turn_done(0, 4, "w0 and w1 ")), ("in", quiet)),
        *(("out", generating(1, 5)), ("out", delta(2)), ("in", BreakIn())),
        *(("out", turn_done(1, 6, "w2 ", stopped=True)), ("in", quiet), ("out", generating(2, 7))),
        ("out", ErrorOut(input_n=7, code="inference_error", message="no")),
        *(("out", turn_done(2, 7, "", failed=True, memo={})), ("in", quiet)),
        *(("out", generating(3, 8)), ("out", delta(3)), ("out", delta(4)), ("in", StopIn())),
        ("out", StoppedOut()),
    ]


def chat_talk(*, streamed: bool = True) -> list[tuple[str, Entry]]:
    audio = b"" if streamed else float_bytes(sound(800, 4801))
    deltas: list[tuple[str, Entry]] = [("out", delta(seed, 1000 + seed)) for seed in range(5)]
    return [
        *(("in", chat_request()), ("out", PrefillDoneOut(input_tokens=42))),
        *(deltas if streamed else []),
        ("out", chat_done("w0 w1 w2 w3 w4 ", audio=audio)),
    ]


def numbered(talk: list[tuple[str, Entry]], ticket: int, after: int | None = None) -> Script:
    """The entries with their stream positions, 100 ms apart; after `after` entries another worker has it."""
    script: Script = []
    counts = {"in": 0, "out": 0}
    for place, (side, entry) in enumerate(talk):
        counts[side] += 1
        epoch = 2 if side == "out" and after is not None and place >= after else 1
        position = StreamPosition(ticket, epoch, counts[side])
        timed = structs.replace(entry, at=T0 + 100.0 * place)
        script.append(("in" if side == "in" else "out", position, timed))
    return script
