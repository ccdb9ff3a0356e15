"""The client for the Redis that the settings name."""

from __future__ import annotations

from dataclasses import replace

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.connections.cluster import ClusterClient
from antiphon.broker.connections.passwords import read_password
from antiphon.broker.connections.sentinel import SentinelClient
from antiphon.broker.connections.single import SingleServer
from antiphon.broker.redis_address import RedisAddress, RedisKind
from antiphon.broker.settings import BrokerSettings


def connect(settings: BrokerSettings, *, only_master: bool = True) -> RedisClient:
    """A client whose calls give up after `redis_timeout_s`. By default it refuses a replica.

    Raises BadPasswordFile.
    """
    address = RedisAddress.parse(settings.redis_url)
    if address.password is None:
        password = read_password("redis_password_file", settings.redis_password_file)
        address = replace(address, password=password)
    if address.kind is RedisKind.SENTINEL:
        return SentinelClient(settings, address, only_master=only_master)
    if address.kind is RedisKind.CLUSTER:
        return ClusterClient(settings, address, only_master=only_master)
    return SingleServer(settings, address, only_master=only_master)
