"""Decides which part of a session's streams no reader needs any more."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from antiphon.shared_schemas.entries import StreamPosition

KEPT_OUTPUTS = 64
"""Outputs that are never trimmed. More than an edge may deliver between two checkpoints (50 events): a
client resumes from the last checkpoint before the message that it has."""


class TrimBounds(NamedTuple):
    """The first entries to keep."""

    inputs: StreamPosition
    outputs: StreamPosition

    def up_to(self, inputs: StreamPosition, outputs: StreamPosition) -> TrimBounds:
        """The earlier of both, for each stream."""
        return TrimBounds(min(self.inputs, inputs), min(self.outputs, outputs))


class TrimPoints:
    """The entries that recovery does not need, and since when.

    A client that resumes needs the newest `kept_s` and KEPT_OUTPUTS, also of those.
    """

    def __init__(self, ticket: int, kept_s: float) -> None:
        start = StreamPosition.before(ticket)
        self.covered = TrimBounds(start, start)
        """Recovery does not need anything before it."""
        self._due = self.covered
        self._kept_s = kept_s
        self._points: deque[tuple[float, TrimBounds]] = deque()

    def add(self, at_s: float, covered: TrimBounds) -> None:
        """Recovery needs nothing before `covered`, which was written at `at_s` (`time.monotonic`)."""
        self.covered = covered
        self._points.append((at_s, covered))

    def due(self, now_s: float, last_output: StreamPosition) -> TrimBounds | None:
        """What may be trimmed now, or None."""
        inputs, outputs = self._due
        for at_s, point in self._points:
            if at_s > now_s - self._kept_s:
                break
            inputs = point.inputs
            if point.outputs.n <= last_output.n - KEPT_OUTPUTS:
                outputs = point.outputs
        self._due = TrimBounds(inputs, outputs)
        while self._points and self._points[0][1].outputs < outputs:
            self._points.popleft()
        return self._due if inputs.n else None
