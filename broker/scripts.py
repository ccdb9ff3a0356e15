"""The Lua scripts: loaded once from `lua/`, called by name, all over the same keys in one slot."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from antiphon.broker.connection import call
from antiphon.broker.keys import Keys
from antiphon.broker.service.metrics import BrokerMetrics

_FOLDER = Path(__file__).parent / "lua"

NAMES = (
    "enqueue",
    "claim",
    "renew",
    "move",
    "end",
    "ask",
    "give_back",
    "reap",
    "worker_beat",
    "worker_gone",
    "ask_worker",
    "edge_beat",
    "edge_gone",
    "edges",
    "snapshot",
    "share",
    "unshare",
    "repair_row",
    "drop_consumers",
    "attach",
    "attached",
    "confirm",
    "detach",
)


STREAM_NAMES = ("open_stream", "drop_stream")
"""Scripts over one session's stream, which lies in a slot of its own."""


def source(name: str) -> str:
    """The full text of one script, with the prelude if it works on the control keys."""
    prelude = (_FOLDER / "prelude.lua").read_text() if name in NAMES else ""
    return prelude + (_FOLDER / f"{name}.lua").read_text()


class Scripts:
    """Runs scripts by their hash, and sends the text again after Redis has forgotten it."""

    def __init__(self, redis: Redis, keys: Keys, metrics: BrokerMetrics) -> None:
        self._redis = redis
        self._metrics = metrics
        self._keys = keys.script_keys()
        self._control = keys.control
        self._sources = {name: source(name) for name in (*NAMES, *STREAM_NAMES)}
        self._hashes = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in self._sources.items()
        }

    async def run(self, name: str, *args: str | bytes | float) -> Any:
        """Call one script; `args` follow the control prefix as ARGV[2] and on."""
        return await self._evaluate(name, (len(self._keys), *self._keys, self._control, *args))

    async def run_on_stream(self, name: str, key: str, *args: str | bytes | float) -> Any:
        """Call one script over a single stream; `args` are ARGV."""
        return await self._evaluate(name, (1, key, *args))

    async def _evaluate(self, name: str, rest: tuple[Any, ...]) -> Any:
        with self._metrics.calling(name):
            try:
                return await call(self._redis, "EVALSHA", self._hashes[name], *rest)
            except NoScriptError:
                return await call(self._redis, "EVAL", self._sources[name], *rest)
