"""One question with its history over `/ws/chat`, with a streamed answer.

async with ask("ws://127.0.0.1:8006", "Who are you?") as answer:
    async for piece in answer.pieces():
        print(piece.text, end="")
    print(answer.done.generated_tokens)
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar, Unpack, assert_never, get_args

from antiphon.client.arguments import check_function, check_json, config_fields
from antiphon.client.errors import InvalidAudio
from antiphon.client.link import Link, open_link
from antiphon.client.options import ClientOptions, with_options
from antiphon.client.results import Parser, Piece
from antiphon.client.session import Session, run_session
from antiphon.shared_schemas.audio import PcmFormat, float_bytes, samples_from_bytes
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    VideoPart,
)
from antiphon.shared_schemas.messages.chat import (
    ChatGeneration,
    ChatRequest,
    ChatServerMessage,
    ChatTts,
    PrefillDone,
    PrefillProgress,
    UnstreamedChatDone,
)
from antiphon.shared_schemas.wire import MediaBytes, Queued

__all__ = ["Answer", "Piece", "ask"]

ChatItem = Piece | PrefillProgress | PrefillDone | UnstreamedChatDone

History = str | Iterable[ConversationMessage | Mapping[str, Any]]
"""One question, or messages."""

Done = TypeVar("Done")

PARSER = Parser(ChatServerMessage)


class Answer(Session[Queued, ChatItem]):
    """A streamed answer. `ask` creates it; every call may raise ServerError or SessionOver.

    `input_tokens` is set once the server has read the request.
    """

    def __init__(
        self,
        link: Link,
        request: Mapping[str, Any],
        on_progress: Callable[[float], None] | None,
    ) -> None:
        super().__init__(link, PARSER)
        self._request_fields = request
        self.input_tokens: int | None = None
        self._done: UnstreamedChatDone | None = None
        self._on_progress = on_progress

    @property
    def recording_id(self) -> str | None:
        """Id of the server's recording, once the answer is complete."""
        return self._done.recording_session_id if self._done else None

    @property
    def done(self) -> UnstreamedChatDone:
        """The end of the answer. Raises RuntimeError before it has arrived."""
        return arrived(self._done)

    async def pieces(self) -> AsyncIterator[Piece]:
        """The pieces of the answer; none with `streaming=False` (see `done`)."""
        async for item in self.events():
            match item:
                case Piece():
                    yield item
                case PrefillProgress(done=done):
                    if self._on_progress is not None:
                        self._on_progress(done)
                case PrefillDone(input_tokens=input_tokens):
                    self.input_tokens = input_tokens
                case UnstreamedChatDone():
                    self._done = item

    async def whole(self) -> UnstreamedChatDone:
        """Wait for the complete answer."""
        async for _ in self.pieces():
            pass
        return self.done

    async def begin(self) -> None:
        await self._send(self._request_fields)

    async def stop(self) -> None:
        """Stop the answer; `done` then has the text up to this point."""
        await self._send({"type": "stop"})

    async def _end(self) -> None:
        """Closing the connection ends the answer, unless the edge keeps it for a resume."""
        if self._link.resumes:
            await self.stop()


@with_options
def ask(
    url: str,
    history: History,
    *,
    streaming: bool = True,
    generation: ChatGeneration | Mapping[str, Any] | None = None,
    tts: ChatTts | Mapping[str, Any] | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    on_progress: Callable[[float], None] | None = None,
    options: dict[str, Any] | None = None,
    **how: Unpack[ClientOptions],
) -> AbstractAsyncContextManager[Answer]:
    """Ask a question; leaving the block drops the rest of the answer.

    Args:
        url: Address of an edge, such as `ws://127.0.0.1:8006`.
        history: One question, or messages: ConversationMessage, or `{"role": …, "content": …}` as in the
            protocol.
        streaming: Send the answer in pieces; False: at once, in `Answer.whole`.
        generation: Settings of the model.
        tts: Speak the answer, and how.
        tools: Definitions in the form of OpenAI's API; `done.tool_calls` are the model's calls.
        on_progress: Called with the share (0 to 1) of a long request that the server has read.
        options: Further fields of the request, such as `omni_mode`.
        api_key: Key of an edge with API keys.
        tls: Replaces the default checks of the certificate of a `wss://` address.
        open_timeout_s: Time to connect, in seconds.
        binary: Send and receive media as bytes instead of base64, if the edge supports it: 25 % less
            traffic.
        pcm: With `binary`: `"s16"` halves the traffic again, and rounds the audio to 16 bits.
        transcript: Ask for the user's words, `user_text` of the results, if the worker recognises them. Not
            in chat.
        resume: Reconnect to the session after a lost connection, and repeat no message.
        resume_for_s: How long to try to reconnect, in seconds.
        other_edges: Addresses of further edges to reconnect through.

    Raises CannotConnect.
    """
    request = request_fields(history, streaming, generation, tts, tools, options)
    if on_progress is not None:
        check_function("on_progress", on_progress)
    link = partial(open_link, url, "/ws/chat", how, progress="1" if on_progress else None)
    return run_session(link, partial(Answer, request=request, on_progress=on_progress))


def arrived(done: Done | None) -> Done:
    """The end of an answer. Raises RuntimeError before it has arrived."""
    if done is None:
        raise RuntimeError("the answer has not ended: read all its pieces before its `done`")
    return done


def request_fields(
    history: History,
    streaming: bool,
    generation: ChatGeneration | Mapping[str, Any] | None,
    tts: ChatTts | Mapping[str, Any] | None,
    tools: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A chat request as it is sent. Raises TypeError for what no request has, and InvalidAudio."""
    check_json("streaming", streaming)
    request: dict[str, Any] = {
        **({} if options is None else config_fields(options, ChatRequest, "options")),
        "messages": _messages(history),
        "streaming": streaming,
    }
    if generation is not None:
        request["generation"] = config_fields(generation, ChatGeneration, "generation")
    if tts is not None:
        fields = config_fields(tts, ChatTts, "tts").items()
        request["tts"] = {name: value for name, value in fields if value is not None}
    if tools := _tools(tools):
        request["tools"] = tools
    return request


def _tools(tools: Any) -> list[Any]:
    """Raises TypeError."""
    if tools is None:
        return []
    if not isinstance(tools, list | tuple):
        raise TypeError(f"tools is a {type(tools).__name__}, a list of definitions is needed")
    check_json("tools", tools)
    return list(tools)


def _messages(history: History) -> list[Mapping[str, Any]]:
    """Raises TypeError unless they are one question or messages, and InvalidAudio."""
    if isinstance(history, str):
        check_json("history", history)
        return [{"role": "user", "content": history}]
    if isinstance(history, Mapping):
        raise TypeError("history is one message, a list of messages is needed: [message]")
    if not isinstance(history, Iterable):
        raise TypeError(f"history is a {type(history).__name__}, a text or messages are needed")
    return [_wire_message(each, number) for number, each in enumerate(history)]


def _wire_message(message: Any, number: int) -> Mapping[str, Any]:
    where = f"history[{number}]"
    if isinstance(message, Mapping):
        sent = dict(message)
    elif isinstance(message, ConversationMessage):
        sent = _message(message, where)
    else:
        raise TypeError(
            f"{where} is a {type(message).__name__}, a message is needed: "
            '{"role": "user", "content": "…"}'
        )
    check_json(where, sent)
    return sent


def _message(message: ConversationMessage, where: str) -> dict[str, Any]:
    for name, values, kind in (
        ("parts", message.parts, Part),
        ("tool_calls", message.tool_calls, ToolCall),
    ):
        _check_each(f"{where}.{name}", values, kind)
    sent: dict[str, Any] = {"role": str(message.role)}
    sent["content"] = [
        _part(part, f"{where}.parts[{number}]") for number, part in enumerate(message.parts)
    ]
    if message.tool_calls:
        sent["tool_calls"] = [call.wire() for call in message.tool_calls]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def _check_each(where: str, values: Any, kind: Any) -> None:
    """Raises TypeError unless they are a list or a tuple of this kind."""
    needed = " or ".join(one.__name__ for one in get_args(kind) or (kind,))
    if not isinstance(values, list | tuple):
        text = f"{where} is a {type(values).__name__}"
        raise TypeError(f"{text}, a list or a tuple of {needed} is needed")
    for number, value in enumerate(values):
        if not isinstance(value, kind):
            raise TypeError(f"{where}[{number}] is a {type(value).__name__}, {needed} is needed")


def _part(part: Part, where: str) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart(data, pcm):
            return {"type": "audio", "data": _sound(data, pcm, where)}
        case ImagePart(data):
            return {"type": "image", "data": data}
        case VideoPart(data, stack_frames):
            return {"type": "video", "data": data, "stack_frames": stack_frames}
        case _:
            assert_never(part)


def _sound(data: Any, pcm: PcmFormat, where: str) -> MediaBytes:
    """As float32, which base64 stands for: only a binary frame names another format. Raises InvalidAudio."""
    if not isinstance(data, bytes):
        return MediaBytes(data)  # `check_json` refuses it
    try:
        return MediaBytes(float_bytes(samples_from_bytes(data, PcmFormat(pcm))))
    except ValueError as error:
        raise InvalidAudio(f"{where}.data: {error}") from None
