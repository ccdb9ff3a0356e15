"""Why a recording cannot be read."""

from __future__ import annotations


class CannotLoad(Exception):
    """The recording or one of its files does not exist or cannot be read; the message names it."""
