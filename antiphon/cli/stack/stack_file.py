"""`stack.json`, which a running `antiphon up` writes so that other commands find it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

NAME = "stack.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """A running stack: its supervisor's process id and its addresses."""

    pid: int
    redis_url: str
    edge_url: str

    @classmethod
    def read(cls, data_dir: Path) -> StackFile | None:
        """The stack that runs over this folder now; None if there is none."""
        try:
            found = cls(**orjson.loads((data_dir / NAME).read_bytes()))
            os.kill(found.pid, 0)
        except (OSError, TypeError, orjson.JSONDecodeError):
            return None
        return found

    @contextmanager
    def published(self, data_dir: Path) -> Iterator[None]:
        """Keep the file until the block ends."""
        path = data_dir / NAME
        path.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
