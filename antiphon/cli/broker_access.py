"""Access to a running system: the stack of this folder, its Redis, one call over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import typer

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerError
from antiphon.broker.service.logs import configure_logging
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.common import fail
from antiphon.cli.stack.stack_file import StackFile
from antiphon.recorder_service.settings import RecorderSettings

T = TypeVar("T")


def broker_settings(redis_url: str | None, data_dir: Path | None = None) -> BrokerSettings:
    """The flag, else the configured Redis, else that of a running `antiphon up`, else the default.

    `data_dir` is the data folder of that `antiphon up`; None means the configured one.
    """
    if redis_url is not None:
        return BrokerSettings(redis_url=redis_url)
    settings = BrokerSettings()
    if "redis_url" in settings.model_fields_set:
        return settings
    stack = StackFile.read(data_dir or RecorderSettings().data_dir)
    return BrokerSettings(redis_url=stack.redis_url) if stack else settings


def call_broker(call: Callable[[Broker], Awaitable[T]], redis_url: str | None) -> T:
    """Open a connection for one call. Exits with status 1 if Redis does not answer, 0 after Ctrl-C."""
    configure_logging("antiphon")  # on stderr, since other programs read what stdout has

    async def connect_and_call() -> T:
        async with open_broker(broker_settings(redis_url)) as broker:
            return await call(broker)

    try:
        return asyncio.run(connect_and_call())
    except BrokerError as error:
        default = "Is `antiphon up` running in this folder? --redis-url names another Redis."
        fail(f"{error}\n{error.remedy or default}")
    except KeyboardInterrupt:
        raise typer.Exit from None
