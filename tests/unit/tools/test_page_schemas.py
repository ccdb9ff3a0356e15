"""The pages check what the edge sends by schemas that are written from its classes."""

from typing import get_args

import pytest

from page_schemas import ANSWERS, MESSAGES, PROTOCOLS, answer_models, answers, messages

KINDS = [kind for union in PROTOCOLS.values() for kind in get_args(union)]


def test_the_modules_are_up_to_date() -> None:
    assert MESSAGES.read_text() == messages(), "run: python tools/page_schemas.py"
    assert ANSWERS.read_text() == answers(), "run: python tools/page_schemas.py"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_message_has_a_schema(kind: type) -> None:
    assert f'type: v.literal("{kind.type}")' in messages()  # type: ignore[attr-defined]


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
def test_fields_of_a_message_without_a_value_may_be_missing(entry: str) -> None:
    assert f"  {entry}\n" in messages()


def test_fields_of_the_connection_are_left_to_the_connection() -> None:
    assert "  resume_token:" not in messages()
    assert "  seq:" not in messages()


def test_every_model_is_written_after_those_that_it_uses() -> None:
    text = answers()
    names = ["unitTiming", "unitRecord", "chunkRecord", "duplexRecording", "recording"]
    places = [text.index(f"export const {name} = ") for name in names]
    assert places == sorted(places)
    assert len(answer_models()) == len(set(answer_models()))


@pytest.mark.parametrize(
    "entry",
    [
        "running_tasks: v.array(runningTask),",
        "hears: v.array(v.string()),",
        "expires_at: v.nullable(v.string()),",
        "default_lang: v.nullish(v.picklist(['en', 'zh'])),",
        "worker_id: v.optional(v.string(), ''),",
        "missing: v.optional(v.array(gap), []),",
        "system_content: v.nullish(v.array(v.variant('type', [presetText, presetVoice]))),",
        "metrics: v.record(v.string(), v.unknown()),",
    ],
)
def test_what_may_be_null_or_missing_in_an_answer(entry: str) -> None:
    assert f"  {entry}\n".replace("'", '"') in answers()
