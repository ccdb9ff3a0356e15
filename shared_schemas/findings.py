"""Results of system checks."""

from dataclasses import dataclass
from enum import StrEnum


class FindingStatus(StrEnum):
    """A failure prevents the system from working; a warning does not yet."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `remedy` says what to do, if anything."""

    about: str
    verdict: FindingStatus
    found: str
    remedy: str = ""


def ok(about: str, found: str) -> Finding:
    return Finding(about, FindingStatus.OK, found)


def warning(about: str, found: str, remedy: str) -> Finding:
    return Finding(about, FindingStatus.WARNING, found, remedy)


def failure(about: str, found: str, remedy: str) -> Finding:
    return Finding(about, FindingStatus.FAILURE, found, remedy)
