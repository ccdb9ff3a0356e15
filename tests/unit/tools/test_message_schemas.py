"""The pages check the messages that the edge sends, by schemas that are written from its classes."""

from __future__ import annotations

from typing import get_args

import pytest

from message_schemas import MODULE, PROTOCOLS, module

MESSAGES = [kind for union in PROTOCOLS.values() for kind in get_args(union)]


def test_the_module_is_up_to_date() -> None:
    assert MODULE.read_text() == module(), "run: python tools/message_schemas.py"


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_message_has_a_schema(kind: type) -> None:
    assert f'type: v.literal("{kind.type}")' in module()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "entry",
    [
        "is_listen: v.boolean(),",
        "audio_data: sound,",
        "timing: v.nullish(v.record(v.string(), v.number()), null),",
        "stopped: v.nullish(v.boolean(), false),",
        "audio_data: v.nullish(sound, null),",
    ],
)
def test_fields_without_a_value_may_be_missing(entry: str) -> None:
    assert f"  {entry}\n" in module()


def test_fields_of_the_connection_are_left_to_the_connection() -> None:
    assert "  resume_token:" not in module()
    assert "  seq:" not in module()
