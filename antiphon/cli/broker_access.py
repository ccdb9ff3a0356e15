"""Access to a running system: the stack of this folder, its Redis, one call over a connection."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import typer

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging, hide_in_text
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.common import command, fail, program
from antiphon.cli.stack.stack_file import StackFile
from antiphon.interrupts import INTERRUPTED
from antiphon.recorder_service.settings import RecorderSettings

T = TypeVar("T")


def broker_settings(redis_url: str | None, data_dir: Path | None = None) -> BrokerSettings:
    """The flag, else that of the `antiphon up` in the folder of a flag, else the configured Redis,
    else that of the `antiphon up` in the configured folder, else the default."""
    if redis_url is not None:
        return BrokerSettings(redis_url=redis_url)
    settings = BrokerSettings()
    if data_dir is None and "redis_url" in settings.model_fields_set:
        return settings
    stack = StackFile.read(data_dir or RecorderSettings().data_dir)
    return BrokerSettings(redis_url=_redis_of(stack)) if stack else settings


def _redis_of(stack: StackFile) -> str:
    """The URL of its Redis. Exits with status 1 if that has not started yet."""
    if not stack.redis_url:
        fail(
            f"`antiphon up` (process {stack.pid}) starts: its Redis loads its data; try again soon"
        )
    return stack.redis_url


def running_stack(folder: Path) -> StackFile:
    """The `antiphon up` of a folder. Exits with status 1 if there is none."""
    stack = StackFile.read(folder)
    if stack is None:
        fail(
            f"no `antiphon up` runs in {folder}; `{command('up -d', folder)}` starts one, --data-dir "
            "names another folder"
        )
    return stack


def command_there(words: str, redis_url: str | None, data_dir: Path | None) -> str:
    """A command line for a message that asks the same Redis as this one, by the same flags."""
    if redis_url is None:
        return command(words, data_dir)
    return f"{program()} {words} --redis-url {shlex.quote(hide_in_text(redis_url))}"


def call_broker(
    call: Callable[[Broker], Awaitable[T]],
    redis_url: str | None,
    data_dir: Path | None = None,
) -> T:
    """Open a connection for one call: to the URL of a flag, or to the stack in the folder of a flag.

    Exits with status 1 if Redis does not answer or the folder has no stack, INTERRUPTED after Ctrl-C.
    """
    configure_logging("antiphon")  # on stderr, since other programs read what stdout has
    if data_dir is not None and redis_url is None:
        redis_url = _redis_of(running_stack(data_dir))

    async def connect_and_call() -> T:
        async with open_broker(broker_settings(redis_url)) as broker:
            return await call(broker)

    try:
        return asyncio.run(connect_and_call())
    except BrokerError as error:
        default = (
            "Is `antiphon up` running in this folder? --data-dir names another folder, and "
            "--redis-url another Redis."
        )
        fail(f"{error}\n{error.remedy or default}")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
