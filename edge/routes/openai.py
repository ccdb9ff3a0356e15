"""OpenAI's HTTP API: `/v1/models`, `/v1/chat/completions` and `/v1/audio/…`."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import create_form_parser
from starlette.types import Receive, Scope, Send

from antiphon.edge.access.limits import Reservation
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import ChatFailed, ClientGone, Fault, HttpError, NotJson
from antiphon.edge.json_text import Utf8Text
from antiphon.edge.media.decode import decode_frame
from antiphon.edge.protocols.openai import (
    decode_completion,
    decode_speech,
    decode_transcription,
)
from antiphon.edge.protocols.openai_answers import (
    EVENTS_TYPE,
    JSON_TYPE,
    CompletionAnswer,
    OpenAiAnswer,
    Piece,
    SpeechAnswer,
    TranscriptionAnswer,
    encode_event,
    encode_openai_error,
)
from antiphon.edge.routes.chat import Body, answer_request
from antiphon.edge.routes.deps import EdgeDep, SnapshotDep, error_responses
from antiphon.edge.routes.models import OpenAiProblem, ServedModel, ServedModels
from antiphon.edge.routes.status import capabilities, live_engines
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat
from antiphon.shared_schemas.entries import ChatIn, DeltaOut
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.openai import (
    STOCK_VOICES,
    parse_completion,
    parse_speech,
    parse_transcription,
    voice_name,
)

log = structlog.get_logger()

_BODIES = ("/v1/chat/completions", "/v1/audio/speech", "/v1/audio/transcriptions")
PATHS = (*_BODIES, *(f"/openai{path}" for path in _BODIES))
"""Routes that limit their bodies themselves."""

_MOST_PARTS = 64
"""Of a form, with its file."""

_PROBLEMS = error_responses(
    OpenAiProblem,
    {
        400: "The request cannot be served; `param` names the field",
        403: "The page is switched off",
        404: "No worker runs this model",
        408: "The body took too long",
        413: "The body is too long",
        429: "Too many requests from this address",
        500: "The engine failed",
        503: "No capacity or no worker just now, or Redis does not answer",
    },
)

router = APIRouter(tags=["openai"], responses=_PROBLEMS)

Decoded = tuple[ChatIn, OpenAiAnswer]
Decode = Callable[[EdgeContext, Body], Awaitable[Decoded]]


class OpenAiResponse(Response):
    """Serves one request as a chat. The response begins with the first piece of its body."""

    def __init__(self, edge: EdgeContext, request: Request, protocol: str, decode: Decode) -> None:
        super().__init__()
        self._edge = edge
        self._request = request
        self._protocol = protocol
        self._decode = decode
        self._answer: OpenAiAnswer | None = None
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self._send = send
        try:
            found = await answer_request(
                self._edge, self._request, self._protocol, self._decode_chat, self._send_delta
            )
        except ClientGone:
            return
        except ChatFailed as failed:
            await self._fail(failed.fault)
            return
        assert self._answer is not None
        await self._send_pieces(self._answer.media_type, self._answer.done(found.done))
        await self._send_body(b"", more=False)

    async def _decode_chat(self, body: Body) -> ChatIn:
        request, self._answer = await self._decode(self._edge, body)
        return request

    async def _send_delta(self, entry: DeltaOut) -> None:
        assert self._answer is not None
        await self._send_pieces(self._answer.media_type, self._answer.delta(entry))

    async def _send_pieces(self, media_type: str, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            data = piece if isinstance(piece, bytes) else await asyncio.to_thread(piece)
            if not self._begun:
                await self._begin(200, media_type)
            if data:
                await self._send_body(data)

    async def _fail(self, fault: Fault) -> None:
        """A file that breaks off has no end: its client must notice. The server cuts its connection."""
        if self._answer is not None:
            fault = self._answer.explain(fault)
        status, data = encode_openai_error(fault)
        if not self._begun:
            await self._begin(status, JSON_TYPE)
        elif self._answer is not None and self._answer.media_type == EVENTS_TYPE:
            data = encode_event(data)
        else:
            log.info("openai_answer_cut", code=fault.message.code)
            return
        await self._send_body(data, more=False)

    async def _begin(self, status: int, media_type: str) -> None:
        self._begun = True
        headers = [(b"content-type", media_type.encode()), (b"cache-control", b"no-store")]
        if status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


@router.get("/v1/models")
@router.get("/openai/v1/models", include_in_schema=False)
async def models(edge: EdgeDep, snapshot: SnapshotDep) -> ServedModels:
    """The models that run. A request's `model` does not select one of them."""
    engines = (await capabilities(edge, snapshot)).engines
    names = dict.fromkeys(engine.model for engine in engines)
    return ServedModels(data=[ServedModel(id=name) for name in names])


@router.get("/v1/models/{model:path}")
@router.get("/openai/v1/models/{model:path}", include_in_schema=False)
async def model(edge: EdgeDep, snapshot: SnapshotDep, model: str) -> ServedModel:
    """One model that runs."""
    engines = (await capabilities(edge, snapshot)).engines
    if all(engine.model != model for engine in engines):
        raise HttpError(404, ErrorCode.NOT_FOUND, "no worker runs this model", field="model")
    return ServedModel(id=model)


@router.post("/v1/chat/completions", response_class=Response)
@router.post("/openai/v1/chat/completions", response_class=Response, include_in_schema=False)
async def completions(edge: EdgeDep, request: Request) -> Response:
    """Answer a chat, at once or streamed as server-sent events."""
    return OpenAiResponse(edge, request, "openai chat", _completion)


@router.post("/v1/audio/speech", response_class=Response)
@router.post("/openai/v1/audio/speech", response_class=Response, include_in_schema=False)
async def speech(edge: EdgeDep, request: Request) -> Response:
    """Speak a text unchanged; the file is sent while it is made."""
    return OpenAiResponse(edge, request, "openai speech", _speech)


@router.post("/v1/audio/transcriptions", response_class=Response)
@router.post("/openai/v1/audio/transcriptions", response_class=Response, include_in_schema=False)
async def transcriptions(edge: EdgeDep, request: Request) -> Response:
    """Transcribe a sound file: WAV, MP3, M4A, OGG, FLAC or WebM."""
    return OpenAiResponse(edge, request, "openai transcription", _transcription)


async def _json(edge: EdgeContext, body: Body) -> Any:
    limit = edge.settings.max_chat_bytes
    return (await asyncio.to_thread(decode_frame, Utf8Text(body.data), limit))[0]


async def _completion(edge: EdgeContext, body: Body) -> Decoded:
    asked = parse_completion(await _json(edge, body))
    voice = voice_name(asked.audio.voice) if asked.audio else ""
    entry = await decode_completion(
        asked,
        await _voices(edge, voice),
        edge.settings,
        edge.broker.voices.sound,
        partial(_read_sound, edge, body.reservation),
    )
    return entry, CompletionAnswer(asked, entry.options.generation.max_new_tokens)


async def _speech(edge: EdgeContext, body: Body) -> Decoded:
    asked = parse_speech(await _json(edge, body))
    voices = await _voices(edge, voice_name(asked.voice))
    entry = await decode_speech(asked, voices, edge.settings, edge.broker.voices.sound)
    return entry, SpeechAnswer(asked.response_format)


async def _transcription(edge: EdgeContext, body: Body) -> Decoded:
    fields, file = await asyncio.to_thread(read_form, body.headers, bytes(body.data))
    asked = parse_transcription(fields)
    entry = decode_transcription(asked, await _read_sound(edge, body.reservation, file, "file"))
    seconds = len(entry.blobs[0]) / (PcmFormat.S16.width * INPUT_RATE)
    return entry, TranscriptionAnswer(asked, seconds)


async def _read_sound(
    edge: EdgeContext, reservation: Reservation, file: bytes, field: str
) -> bytes:
    """The PCM counts like the body: small files may hold much of it."""
    sound = await edge.sound_decoders.read(file, field, edge.settings.max_chat_audio_s)
    reservation.add(len(sound))
    return sound


async def _voices(edge: EdgeContext, asked: str) -> frozenset[str]:
    """The voices of the engines, if it matters: some have names that OpenAI's voices have too."""
    return (await live_engines(edge)).voice_ids if asked in STOCK_VOICES else frozenset()


def read_form(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields and the `file` of a multipart form. Blocks. Raises NotJson or InvalidInput."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    files: dict[str, bytes] = {}
    numbers = count(1)

    def count_part() -> None:
        if next(numbers) > _MOST_PARTS:
            raise InvalidInput(f"the form has more than {_MOST_PARTS} parts")

    def on_field(field: Any) -> None:
        count_part()
        name = field.field_name.decode("utf-8", "replace")
        value = (field.value or b"").decode("utf-8", "replace")
        if name.endswith("[]"):
            lists.setdefault(name[:-2], []).append(value)
        else:
            fields[name] = value

    def on_file(file: Any) -> None:
        count_part()
        file.file_object.seek(0)
        files[file.field_name.decode("utf-8", "replace")] = file.file_object.read()

    kind = headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise NotJson("the body must be a form (multipart/form-data) with `file` and `model`")
    config = {"MAX_MEMORY_FILE_SIZE": len(body) + 1}
    try:
        parser = create_form_parser(
            {"Content-Type": kind.encode()}, on_field, on_file, config=config
        )
        source = io.BytesIO(body)
        while piece := source.read(1024 * 1024):
            parser.write(piece)
        parser.finalize()
    except FormParserError as error:
        raise NotJson(f"the form cannot be read: {error}") from None
    if "file" not in files:
        raise InvalidInput("file is required", field="file", code=ErrorCode.MISSING_FIELD)
    return fields | lists, files["file"]
