"""The pages check the answers of the HTTP API by schemas that are written from the models of the edge."""

from __future__ import annotations

import pytest

from answer_schemas import MODULE, answer_models, module


def test_the_module_is_up_to_date() -> None:
    assert MODULE.read_text() == module(), "run: python tools/answer_schemas.py"


def test_every_model_is_written_after_those_that_it_uses() -> None:
    text = module()
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
def test_what_may_be_null_or_missing(entry: str) -> None:
    assert f"  {entry}\n".replace("'", '"') in module()
