"""The base of wire messages and stream entries, each of which is declared once."""

from typing import Any, dataclass_transform

import msgspec
from pydantic import BaseModel


class _Tagged(msgspec.StructMeta):
    """msgspec has these options for a single class; all classes here have them.

    The tag, under the name `tag` or `type`, and other keywords become attributes of the class.
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        tag_field: str | None = None,
        frozen: bool = True,
        **attributes: Any,
    ) -> Any:
        return super().__new__(
            mcs,
            name,
            bases,
            namespace | attributes,
            tag=attributes.get("tag", attributes.get("type")),
            tag_field=tag_field,
            kw_only=True,
            frozen=frozen,
            omit_defaults=True,
        )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class TaggedStruct(msgspec.Struct, metaclass=_Tagged, frozen=True):
    """Frozen, with named fields. A field with its default is not encoded."""

    def __repr__(self) -> str:
        """Without media."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={value!r}" for name, value in values if not _is_media(value))
        return f"{type(self).__name__}({', '.join(shown)})"


def plain(value: Any) -> Any:
    """What msgspec does not encode by itself: settings, and subclasses of plain types. Raises TypeError."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} does not belong in JSON")


def _is_media(value: object) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, bytes) for part in parts)
