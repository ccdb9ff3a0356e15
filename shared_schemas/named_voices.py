"""Voices that an engine has by name. A client chooses one; it needs no recording of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVoice:
    """`id` is what `voice` takes in the settings of a session; `language` is a tag such as `en-GB`."""

    id: str
    name: str
    language: str
    gender: Literal["female", "male"]
