"""What a check of a system found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingStatus(StrEnum):
    """A failure keeps the system from working; a warning will be regretted later."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `remedy` says what to do, where something is to be done."""

    about: str
    verdict: FindingStatus
    found: str
    remedy: str = ""


def ok(about: str, found: str) -> Finding:
    """All is well."""
    return Finding(about, FindingStatus.OK, found)


def warning(about: str, found: str, remedy: str) -> Finding:
    """It works, for now."""
    return Finding(about, FindingStatus.WARNING, found, remedy)


def failure(about: str, found: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(about, FindingStatus.FAILURE, found, remedy)


def skipped(about: str, why: str) -> Finding:
    """It was not looked at."""
    return Finding(about, FindingStatus.SKIPPED, why)
