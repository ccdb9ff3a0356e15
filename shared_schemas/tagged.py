"""The metaclass of wire messages and stream entries."""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field, field))
class TaggedDataclass(type):
    """Makes each class a dataclass with slots; class keywords become class attributes.

    The type checker refuses assignments to its fields. To refuse them at run time as well, `dataclass`
    would take four times as long for each object.
    """

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **attributes: object
    ) -> Any:
        cls: Any = super().__new__(mcs, name, bases, namespace | attributes)
        if "__slots__" in namespace:  # `dataclass` creates each class again, with slots
            return cls
        return dataclass(unsafe_hash=True, slots=True, kw_only=True)(cls)
