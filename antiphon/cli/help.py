"""What `--help` shows beyond typer's defaults: examples, and no type for flags."""

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup, TyperOption

EXAMPLES = {
    "antiphon": {
        "antiphon up": "all services until Ctrl-C, and their address",
        "antiphon talk": "in another terminal: ask a bundled question",
        "antiphon doctor": "find problems, and how to fix them",
    },
    "up": {
        "antiphon up -d": "in the background",
        "antiphon up -p 8080 --data-dir calls": "another port and folder",
        "antiphon up -e minicpmo -m MiniCPM-o-4_5": "the model on a GPU",
    },
    "models": {
        "antiphon models list": "sizes, scores, and what is here",
        "antiphon models get qwen2.5-coder-1.5b": "1.1 GB",
        "antiphon up -m qwen2.5-coder-1.5b": "use it",
    },
    "logs": {"antiphon logs worker -f": "follow one service"},
    "doctor": {"antiphon doctor -e minicpmo -m MiniCPM-o-4_5": "before a start on a GPU"},
    "talk": {
        "antiphon talk question.mp3 -o answer.wav": "ask your question",
        "antiphon talk --mic": "until Ctrl-C, with headphones",
        "antiphon talk -u wss://voice.example.org": "an edge elsewhere",
    },
    "chat": {
        'antiphon chat "What is the capital of Japan?"': "one question",
        "antiphon chat": "a conversation, until Ctrl-D",
    },
    "recordings": {
        "antiphon recordings list --since 2026-03-01": "with their ids",
        "antiphon recordings show ID": "what both sides said",
        "antiphon recordings export ID -o call.zip": "all files",
        "antiphon recordings replay ID -o both.wav": "both sides in one file",
    },
    "replay": {"antiphon replay ID --fast": "without the pauses of the recording"},
    "bench": {
        "antiphon bench -n 8 -s 60 -e local": "a temporary stack",
        "antiphon bench -n 50 -u ws://127.0.0.1:8006": "a running one",
    },
    "evaluate": {
        "antiphon evaluate --quick": "a temporary stack",
        "antiphon evaluate -u wss://voice.example.org": "an edge elsewhere",
        "antiphon evaluate -e minicpmo -m MiniCPM-o-4_5": "the model on a GPU",
        "antiphon evaluate --only pause,interruption": "some kinds of cases",
    },
    "queue": {
        "antiphon queue --watch": "until Ctrl-C",
        "antiphon queue cancel adx_1": "the id of a session or its ticket",
    },
    "events": {"antiphon events -f --session adx_1": "follow one session"},
    "worker": {
        "antiphon worker -n 8 --redis-url redis://redis.lan": "eight slots",
        "antiphon worker drain ID": "stop one gently",
    },
    "cleanup": {"antiphon cleanup --dry-run": "what would be deleted now"},
}
"""By command: command lines, and what each of them does."""


def examples(command: str) -> str | None:
    """The text at the end of the help of a command."""
    if (lines := EXAMPLES.get(command)) is None:
        return None
    width = max(map(len, lines))
    shown = [f"  {line:<{width}}   {purpose}".rstrip() for line, purpose in lines.items()]
    return "\n".join(["Examples:", *shown])


if TYPE_CHECKING:
    _Base = TyperCommand
else:
    _Base = object


class _WithFlags(_Base):
    """Shows no type for an option without a value."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperOption) and param.is_flag:
                param.metavar = ""
        return params


class Command(_WithFlags, TyperCommand):
    """A command of `antiphon`."""


class Group(_WithFlags, TyperGroup):
    """A command with sub-commands."""
