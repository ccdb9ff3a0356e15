"""`stack.json`: where the commands of a folder find its `antiphon up`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from antiphon.cli.common import DEFAULT_URL

STACK_FILE = "stack.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """`stack.json` of a running `antiphon up`: its process id and its addresses."""

    pid: int
    redis_url: str
    edge_url: str

    @classmethod
    def read(cls, data_dir: Path) -> StackFile | None:
        """The stack that runs over this folder now; None if there is none."""
        try:
            found = cls(**orjson.loads((data_dir / STACK_FILE).read_bytes()))
            os.kill(found.pid, 0)
        except (OSError, TypeError, orjson.JSONDecodeError):
            return None
        return found

    @contextmanager
    def published(self, data_dir: Path) -> Iterator[None]:
        """Keep the file until the block ends."""
        path = data_dir / STACK_FILE
        path.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def usual_edge() -> str:
    """The edge of `antiphon up` in this folder, else the default address."""
    try:
        from antiphon.recorder_service.settings import RecorderSettings
    except ModuleNotFoundError:  # without the services
        return DEFAULT_URL
    stack = StackFile.read(RecorderSettings().data_dir)
    return stack.edge_url if stack else DEFAULT_URL
