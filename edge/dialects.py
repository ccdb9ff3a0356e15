"""How each protocol puts a fault into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.edge.errors import Fault
from antiphon.shared_schemas.wire import ServerMessage

Dialect = Callable[[Fault], Sequence[ServerMessage]]
"""What to tell a client of a fault, before its connection closes if it must."""


def plain(fault: Fault) -> Sequence[ServerMessage]:
    """`error` with text and code, as all protocols but realtime have it."""
    return [fault.message]
