"""`antiphon chat`: questions in writing to any running edge."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from antiphon.cli.common import PATIENCE_S, ApiKey, EdgeUrl, Patience, fail, in_utf8
from antiphon.cli.terminal import StreamedText, echo, read_line
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.wire import Queued

History = list[dict[str, Any]]


def chat(
    text: Annotated[
        str | None,
        typer.Argument(help="The question.", show_default="asks on the terminal, or reads stdin"),
    ] = None,
    url: EdgeUrl = None,
    prompt: Annotated[
        str, typer.Option(help="The system prompt: the role of the assistant.")
    ] = "You are a helpful assistant.",
    patience: Patience = PATIENCE_S,
    api_key: ApiKey = None,
) -> None:
    from antiphon.cli.stack.stack_file import default_edge_url
    from antiphon.client.errors import ClientError

    edge = _Edge(url or default_edge_url(), patience, api_key)
    history: History = [{"role": "system", "content": in_utf8(prompt)}]
    interactive = text is None and sys.stdin.isatty()
    if text is None and not interactive:
        text = sys.stdin.buffer.read().decode(errors="replace")
    try:
        if interactive:
            _converse(edge, history)
        elif text is None or not text.strip():
            fail("the question is empty", status=2)
        else:
            edge.answer(history, text)
    except ClientError as error:
        fail(str(error))
    except KeyboardInterrupt:
        echo()
        raise typer.Exit(0 if interactive else INTERRUPTED) from None


class _Edge:
    """Where the questions go."""

    def __init__(self, url: str, patience_s: float, api_key: str | None) -> None:
        self._url = url
        self._patience_s = patience_s
        self._api_key = api_key

    def answer(self, history: History, question: str) -> None:
        """Print the answer as it arrives; both are added to the history. Raises ClientError."""
        history.append({"role": "user", "content": in_utf8(question)})
        history.append({"role": "assistant", "content": asyncio.run(self._stream(history))})

    async def _stream(self, history: History) -> str:
        from antiphon.client.chat import ask
        from antiphon.client.errors import NoAnswer

        printed, clock = StreamedText(), asyncio.get_running_loop()

        def wait_again(*_: object) -> None:
            limit.reschedule(clock.time() + self._patience_s)

        async with ask(self._url, history, api_key=self._api_key, on_progress=wait_again) as answer:
            await answer.wait_for_turn(_show_place, no_worker_s=self._patience_s)
            try:
                async with asyncio.timeout(self._patience_s) as limit:
                    try:
                        async for piece in answer.pieces():
                            wait_again()
                            printed.add(piece.text)
                    finally:
                        echo()
            except TimeoutError:
                what = "the answer did not continue" if printed.text else "no answer came"
                raise NoAnswer(f"{what} within {self._patience_s:g} s") from None
        return printed.text


def _show_place(place: Queued) -> None:
    text = f"number {place.position} of {place.queue_length} in the queue"
    echo(text, err=True, dim=True)


def _converse(edge: _Edge, history: History) -> None:
    """Until the end of the input: Ctrl-D, or Ctrl-C."""
    echo("Ctrl-D ends.", dim=True)
    while (question := read_line("› ")) is not None:
        if question.strip():
            edge.answer(history, question)
