"""`antiphon talk`: a conversation with any running edge, from a sound file or a microphone."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.common import (
    BUNDLED_QUESTION,
    PATIENCE_S,
    ApiKey,
    EdgeUrl,
    Patience,
    command,
    fail,
    in_utf8,
)
from antiphon.cli.terminal import Terminal
from antiphon.interrupts import INTERRUPTED


def talk(
    question: Annotated[
        Path | None,
        typer.Argument(help="A sound file with the question.", show_default="a bundled question"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the spoken reply.")] = Path(
        "reply.wav"
    ),
    url: EdgeUrl = None,
    mic: Annotated[
        bool, typer.Option("--mic", help="Use the microphone and the speakers.")
    ] = False,
    prompt: Annotated[
        str, typer.Option(help="The system prompt: the role of the assistant.")
    ] = "You are a helpful assistant.",
    voice: Annotated[str, typer.Option(help="One of the voices of the engine, such as emma.")] = "",
    interim: Annotated[
        bool,
        typer.Option(help="On a terminal, show your words while you speak, if the engine can."),
    ] = True,
    patience: Patience = PATIENCE_S,
    api_key: ApiKey = None,
) -> None:
    if mic and question is not None:
        fail("use either a sound file or --mic, not both", status=2)
    import asyncio  # numpy and the sound libraries load slowly: `talk --help` does without them

    from antiphon.cli.conversation.dialogue import Call, ConversationPrinter, ask_files, talk_live
    from antiphon.cli.conversation.sound import NoMicrophone, UnusableAudio, check_reply_file
    from antiphon.cli.stack.stack_file import default_edge_url
    from antiphon.client.errors import ClientError
    from antiphon.shared_schemas.config import DuplexConfig

    terminal = Terminal()
    printer = ConversationPrinter(terminal)
    config = DuplexConfig(
        voice=in_utf8(voice),
        interim_transcripts=interim and terminal.is_terminal,
        end_on_goodbye=mic,
    )
    call = Call(
        url=url or default_edge_url(),
        prompt=in_utf8(prompt),
        out=out,
        api_key=api_key,
        config=config,
    )
    try:
        check_reply_file(out)
        if mic:
            asyncio.run(talk_live(call, patience, printer))
            return
        result = asyncio.run(ask_files(call, [question or BUNDLED_QUESTION], patience, printer))
    except (ClientError, UnusableAudio, NoMicrophone) as error:
        fail(f"{error}{_in_writing(question, url)}")
    except KeyboardInterrupt:
        raise typer.Exit(0 if mic else INTERRUPTED) from None
    if not result.answered:
        fail(f"no complete answer came within {patience:.0f} s after the question")


def _in_writing(question: Path | None, url: str | None) -> str:
    """How to ask words that were taken for the name of a file."""
    from antiphon.cli.conversation.sound import is_there

    if question is None or is_there(question) or (question.suffix and " " not in str(question)):
        return ""
    there = "" if url is None else f" --url {shlex.quote(url)}"
    return f"; to ask in writing: `{command(f'chat {shlex.quote(str(question))}{there}')}`"
