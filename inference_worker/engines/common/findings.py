"""Turns one step of an engine's checkup into a finding."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.findings import Finding, failure, ok


def run_check(about: str, step: Callable[[], str], remedy: str) -> Finding:
    """The result of `step`, or a failure if it raises EngineLoadError."""
    try:
        return ok(about, step())
    except EngineLoadError as error:
        return failure(about, str(error), remedy)
