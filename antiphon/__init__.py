"""Antiphon: full-duplex voice and video conversations with MiniCPM-o 4.5, for many users at once.

With `antiphon up` running:

    from antiphon import Client

    reply = Client("ws://127.0.0.1:8006").ask("question.wav")
    print(reply.text)
    reply.save("reply.wav")

`Client` asks spoken questions and reads recordings. `connect_duplex` and `connect_half_duplex` hold spoken
conversations, `ask` is a chat, and `connect_realtime` and `connect_realtime_chat` speak the realtime API.
All errors of the client are kinds of `ClientError`. docs/python-client.md has an example of each.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for type checkers it is true; `typing` loads too slowly for every command
if TYPE_CHECKING:
    from typing import Any

    from antiphon.client.assistant import Client, SpokenReply
    from antiphon.client.chat import ask
    from antiphon.client.duplex import DuplexSession, connect_duplex
    from antiphon.client.errors import (
        CannotConnect,
        ClientError,
        Forbidden,
        InvalidAudio,
        MissingFile,
        NoAnswer,
        ServerError,
        ServiceUnavailable,
        SessionOver,
        Unauthorized,
        UnknownRecording,
        UnreadableMessage,
    )
    from antiphon.client.half_duplex import (
        HalfDuplexSession,
        Interrupted,
        TurnDone,
        connect_half_duplex,
    )
    from antiphon.client.realtime import connect_realtime, connect_realtime_chat
    from antiphon.client.results import Piece, Unit
    from antiphon.client.sound import load_wav
    from antiphon.client.turns import Turn
    from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts

    __version__: str

__all__ = [
    "CannotConnect",
    "ChatGeneration",
    "ChatTts",
    "Client",
    "ClientError",
    "DuplexSession",
    "Forbidden",
    "HalfDuplexSession",
    "Interrupted",
    "InvalidAudio",
    "MissingFile",
    "NoAnswer",
    "Piece",
    "ServerError",
    "ServiceUnavailable",
    "SessionOver",
    "SpokenReply",
    "Turn",
    "TurnDone",
    "Unauthorized",
    "Unit",
    "UnknownRecording",
    "UnreadableMessage",
    "__version__",
    "ask",
    "connect_duplex",
    "connect_half_duplex",
    "connect_realtime",
    "connect_realtime_chat",
    "load_wav",
]

_MODULES = {
    "ChatGeneration": "chat",
    "ChatTts": "chat",
    "Client": "assistant",
    "DuplexSession": "duplex",
    "HalfDuplexSession": "half_duplex",
    "Interrupted": "half_duplex",
    "Piece": "results",
    "SpokenReply": "assistant",
    "Turn": "turns",
    "TurnDone": "half_duplex",
    "Unit": "results",
    "ask": "chat",
    "connect_duplex": "duplex",
    "connect_half_duplex": "half_duplex",
    "connect_realtime": "realtime",
    "connect_realtime_chat": "realtime",
    "load_wav": "sound",
}


def __dir__() -> list[str]:
    """For completion, and for `help`, which then shows the client."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the client on first use: the services import this package without it."""
    if name == "__version__":
        return import_module("importlib.metadata").version("antiphon")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"antiphon.client.{_MODULES.get(name, 'errors')}"), name)
