"""`antiphon talk`: a conversation with any running edge, from a sound file or a microphone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

DEFAULT_URL = "ws://127.0.0.1:8006"
PATIENCE_S = 20.0

ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="ANTIPHON_API_KEY",
        help="Where the edge asks for one; others on this machine see what a command line says.",
        show_default=False,
    ),
]


def talk(
    question: Annotated[
        Path | None, typer.Argument(help="A sound file with the question, such as question.wav.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the spoken reply is saved.")] = Path("reply.wav"),
    url: Annotated[str, typer.Option(help="The edge to talk to.")] = DEFAULT_URL,
    mic: Annotated[
        bool, typer.Option("--mic", help="Talk through microphone and speakers.")
    ] = False,
    prompt: Annotated[
        str, typer.Option(help="The system prompt: who the other side is.")
    ] = "You are a helpful assistant.",
    patience: Annotated[
        float, typer.Option(help="Seconds to wait for an answer before giving up.", min=1)
    ] = PATIENCE_S,
    api_key: ApiKey = None,
) -> None:
    """Hold a spoken conversation with a running edge and save the reply."""
    if mic == (question is not None):
        fail("name a sound file to speak, or --mic to talk yourself", status=2)
    import asyncio

    from rich.console import Console

    from antiphon.cli.dialogue import ask_file, converse_live
    from antiphon.cli.microphone import NoMicrophone
    from antiphon.cli.transcript import Transcript
    from antiphon.cli.wav import UnusableAudio
    from antiphon.client.errors import ClientError

    transcript = Transcript(Console(highlight=False))
    try:
        if question is None:
            asyncio.run(converse_live(url, prompt, out, transcript, api_key))
            return
        asking = ask_file(url, question, prompt, patience, out, transcript, api_key=api_key)
        heard = asyncio.run(asking)
    except (ClientError, UnusableAudio, NoMicrophone) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(0 if mic else 130) from None
    if not heard.answered:
        fail(f"no complete answer came within {patience:.0f} s after the question")


def fail(reason: str, status: int = 1) -> NoReturn:
    """Say why on stderr and end with this exit status."""
    typer.secho(f"antiphon: {reason}", fg="red", err=True)
    raise typer.Exit(status)
