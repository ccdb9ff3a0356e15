"""Typed calls of the Lua scripts in `lua/`.

A decorated function declares one script. Its name is the file's name, its parameters are the script's
arguments, bound to Lua locals of the same names, and its body turns the reply into a result:

    @control_script
    def give_back(reply: int, sid: str, worker_id: str, epoch: int) -> bool:
        return reply == 1

    await scripts.run(give_back, sid, worker_id, epoch)

KEYS of a control script are those of `Keys.script_keys`, named by `lua/prelude.lua`, and one that never
exists. ARGV[1] is the control prefix. KEYS of a stream script is the one stream that its first
parameter names. The last parameter may be a collection: its values follow the others in ARGV, and the
Lua local of its name is the index of the first one.
"""

import hashlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from redis.exceptions import NoScriptError

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.keys import Keys
from antiphon.broker.service.metrics import BrokerMetrics

P = ParamSpec("P")
R = TypeVar("R")

_FOLDER = Path(__file__).parent / "lua"


@dataclass(frozen=True, slots=True)
class LuaScript(Generic[P, R]):
    """One script: its full text, the hash Redis knows it by, and the decoder of its reply."""

    name: str
    parameters: tuple[str, ...]
    on_stream: bool
    source: str
    sha: str
    decode: Callable[Concatenate[Any, P], R]


def control_script(declared: Callable[Concatenate[Any, P], R]) -> LuaScript[P, R]:
    """A script over the control keys; see the module's docstring."""
    return _script(declared, on_stream=False)


def stream_script(declared: Callable[Concatenate[Any, P], R]) -> LuaScript[P, R]:
    """A script over one session's stream, which is in another cluster slot than the control keys."""
    return _script(declared, on_stream=True)


def _script(declared: Callable[Concatenate[Any, P], R], *, on_stream: bool) -> LuaScript[P, R]:
    name = declared.__name__.strip("_")
    _, *parameters = inspect.signature(declared).parameters
    hints = typing.get_type_hints(declared)
    lines = list(_bindings(parameters, hints, on_stream=on_stream))
    prelude = "" if on_stream else (_FOLDER / "prelude.lua").read_text("utf-8")
    source = prelude + "\n".join(lines) + "\n" + (_FOLDER / f"{name}.lua").read_text("utf-8")
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return LuaScript(name, tuple(parameters), on_stream, source, sha, declared)


def _bindings(names: list[str], hints: Mapping[str, Any], *, on_stream: bool) -> Iterator[str]:
    """Lua lines that give the arguments their names. Every value is a string in Lua."""
    if on_stream:
        yield f"local {names[0]} = KEYS[1]"
        names = names[1:]
    for index, name in enumerate(names, start=1 if on_stream else 2):
        origin = typing.get_origin(hints[name])
        is_collection = isinstance(origin, type) and issubclass(origin, Iterable)
        yield f"local {name} = {index if is_collection else f'ARGV[{index}]'}"


class Scripts:
    """Runs scripts by their hash, and sends the text when Redis does not have it."""

    def __init__(self, redis: RedisClient, keys: Keys, metrics: BrokerMetrics) -> None:
        self._redis = redis
        self._metrics = metrics
        # The last key never exists: a cluster that moves the slot then refuses the script. It would stop
        # the script in the middle where rows, which are not declared, are on the other server.
        keys_of_all = [*keys.script_keys(), f"{keys.control}absent"]
        self._head = (len(keys_of_all), *keys_of_all, keys.control)

    async def run(self, script: LuaScript[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call one script. Numbers and text are sent as they are, None as '', True as '1'."""
        return await self._run(script, self._redis.call, *args, **kwargs)

    async def run_on(
        self, master: bytes, script: LuaScript[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Like `run`, on the server with this `master_id`. Raises MasterChanged if another one has the key."""
        call = partial(self._redis.call_pipelined, master=master)
        return await self._run(script, call, *args, **kwargs)

    async def _run(
        self,
        script: LuaScript[P, R],
        call: Callable[..., Awaitable[Any]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        values = (*args, *(kwargs[name] for name in script.parameters[len(args) :]))
        head = (1,) if script.on_stream else self._head
        rest = (*head, *_flat(values))
        with self._metrics.calling(script.name):
            try:
                reply = await call("EVALSHA", script.sha, *rest)
            except NoScriptError:
                reply = await call("EVAL", script.source, *rest)
        return script.decode(reply, *args, **kwargs)


def _flat(values: Iterable[Any]) -> Iterator[str | bytes | float]:
    for value in values:
        if value is None:
            yield ""
        elif isinstance(value, bool):
            yield int(value)
        elif isinstance(value, str | bytes | int | float):
            yield value
        else:
            yield from _flat(_pairs(value))


def _pairs(value: Any) -> Iterable[Any]:
    return value.items() if isinstance(value, Mapping) else value
