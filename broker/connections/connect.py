"""Clients for the Redis that the settings name."""

from dataclasses import replace

from antiphon.broker.connections.client import RedisClient, RedisNode, SingleServer, read_password
from antiphon.broker.connections.cluster import ClusterClient
from antiphon.broker.connections.pool import shared_pool
from antiphon.broker.connections.sentinel import SentinelClient
from antiphon.broker.redis_address import Endpoint, RedisAddress, RedisKind
from antiphon.broker.settings import BrokerSettings


def connect(settings: BrokerSettings, *, only_master: bool = True) -> RedisClient:
    """A client whose calls give up after `redis_timeout_s`. By default it refuses a replica.

    Raises BadPasswordFile.
    """
    address = _address(settings)
    if address.kind is RedisKind.SENTINEL:
        return SentinelClient(settings, address, only_master=only_master)
    if address.kind is RedisKind.CLUSTER:
        return ClusterClient(settings, address, only_master=only_master)
    return SingleServer(settings, address, only_master=only_master)


def connect_to(settings: BrokerSettings, endpoint: Endpoint) -> RedisNode:
    """One server of a Redis with several servers, also a replica."""
    address = replace(_address(settings), endpoints=(endpoint,))
    return RedisNode(shared_pool(settings, address, only_master=False))


def _address(settings: BrokerSettings) -> RedisAddress:
    """With the password of the file, unless the URL has one."""
    address = RedisAddress.parse(settings.redis_url)
    if address.password is not None:
        return address
    password = read_password("redis_password_file", settings.redis_password_file)
    return replace(address, password=password)
