"""Fields of options and settings that operators cannot change."""

from typing import Final

from pydantic import BaseModel


class _Constant:
    """The type of CONSTANT."""


CONSTANT: Final = _Constant()
"""Marks a field that only a constructor sets, for tests: no flag, variable or file has it."""


def names_of(options: type[BaseModel]) -> list[str]:
    """The fields that an operator can set: all but the constants."""
    return [name for name, field in options.model_fields.items() if CONSTANT not in field.metadata]
