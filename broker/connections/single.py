"""A Redis that is one server, and the file with its password."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from antiphon.broker.connections.client import BlockingConnection, RedisClient, RedisNode
from antiphon.broker.connections.pool import LocateServer, blocking_pool, shared_pool
from antiphon.broker.errors import BadPasswordFile
from antiphon.broker.redis_address import RedisAddress
from antiphon.broker.settings import BrokerSettings, read_utf8


def read_password(setting: str, path: Path | None) -> str | None:
    """The text of the file that a setting names, None without one. Raises BadPasswordFile."""
    if path is None:
        return None
    try:
        password = read_utf8(path).strip()
    except OSError as error:
        raise BadPasswordFile(f"{setting} {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise BadPasswordFile(f"{setting} {error}") from None
    if not password:
        raise BadPasswordFile(f"{setting} {path} is empty")
    return password


class SingleServer(RedisNode, RedisClient):
    """One server, or the one that is the master now if `locate` is given."""

    def __init__(
        self,
        settings: BrokerSettings,
        address: RedisAddress,
        *,
        only_master: bool = True,
        locate: LocateServer | None = None,
    ) -> None:
        super().__init__(shared_pool(settings, address, locate=locate, only_master=only_master))
        self._settings = settings
        self._address = address
        self._locate = locate

    async def master_id(self, key: str) -> bytes:  # noqa: ARG002
        return await self.server_id()

    def group(self, key: str) -> Hashable:  # noqa: ARG002
        return None

    def connect_blocking(self, key: str) -> BlockingConnection:  # noqa: ARG002
        pool = blocking_pool(self._settings, self._address, locate=self._locate)
        return BlockingConnection(pool, lambda _: self)

    async def masters(self) -> Sequence[RedisNode]:
        return (self,)
