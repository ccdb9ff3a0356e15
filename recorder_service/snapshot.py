"""The configuration of a session, as `meta.json` and `recording.json` show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from antiphon.recorder_service.media import REF_AUDIO, TTS_REF_AUDIO
from antiphon.recorder_service.timeline import Line


def config_of(prepare: Line | None) -> dict[str, Any]:
    """Prompt, settings and references from the entry that stated them; empty when there is none."""
    if prepare is None:
        return {}
    references = {name: prepare[name] for name in (REF_AUDIO, TTS_REF_AUDIO) if name in prepare}
    return {**_stated(prepare), **references}


def _stated(prepare: Line) -> dict[str, Any]:
    match prepare["type"]:
        case "half_prepare":
            media = [item["file"] for item in prepare.get("media", []) if "file" in item]
            shown = {"system_media": media} if media else {}
            return {"system_prompt": _system_text(prepare), **prepare["config"], **shown}
        case "chat":
            return {"system_prompt": _system_text(prepare), **prepare["options"]}
    return {
        "system_prompt": prepare["system_prompt"],
        **prepare["config"],
        "deferred_finalize": prepare["deferred_finalize"],
    }


def _system_text(line: Line) -> str:
    return "\n".join(text_of(m["parts"]) for m in line["content"] if m["role"] == "system")


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    """The words of a message, without the rest."""
    return " ".join(part["text"] for part in parts if part["type"] == "text")
