"""Files with a password."""

from __future__ import annotations

from pathlib import Path

from antiphon.broker.errors import BadPasswordFile


def read_password(setting: str, path: Path | None) -> str | None:
    """The text of the file that a setting names, None without one. Raises BadPasswordFile."""
    if path is None:
        return None
    try:
        password = path.read_text().strip()
    except OSError as error:
        raise BadPasswordFile(f"{setting} {path} cannot be read ({error.strerror})") from error
    if not password:
        raise BadPasswordFile(f"{setting} {path} is empty")
    return password
