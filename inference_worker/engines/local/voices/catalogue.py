"""The voices that clients choose by name. Imports no library, because commands check settings with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from antiphon.shared_schemas.voices import NamedVoice

Accent = Literal["en-US", "en-GB", "zh-CN"]

ESPEAK = "espeak"
"""The id of eSpeak NG's voice."""

ESPEAK_VOICE = "en-us+Hugo"
"""eSpeak's own name of that voice, unless the options name another one."""

DEFAULT_VOICE = "heart"

DEFAULT_VOICES = {"en": DEFAULT_VOICE, "zh": "xiaoxiao"}
ESPEAK_VOICES = {"en": ESPEAK_VOICE, "zh": "cmn"}
"""By the language of the conversations."""


@dataclass(frozen=True, slots=True)
class NaturalVoice:
    """A voice of Kokoro. `style` is its name there, and that of its file."""

    style: str
    accent: Accent
    gender: Literal["female", "male"]

    @property
    def id(self) -> str:
        """`heart` of `af_heart`."""
        return self.style.partition("_")[2]

    @property
    def entry(self) -> NamedVoice:
        name = self.id.capitalize()
        return NamedVoice(id=self.id, name=name, language=self.accent, gender=self.gender)


NATURAL_VOICES = {
    voice.id: voice
    for voice in (
        NaturalVoice("af_heart", "en-US", "female"),
        NaturalVoice("af_bella", "en-US", "female"),
        NaturalVoice("am_michael", "en-US", "male"),
        NaturalVoice("am_fenrir", "en-US", "male"),
        NaturalVoice("bf_emma", "en-GB", "female"),
        NaturalVoice("bf_isabella", "en-GB", "female"),
        NaturalVoice("bm_george", "en-GB", "male"),
        NaturalVoice("bm_fable", "en-GB", "male"),
    )
}
"""The English ones by id."""

CHINESE_VOICES = {
    voice.id: voice
    for voice in (
        NaturalVoice("zf_xiaoxiao", "zh-CN", "female"),
        NaturalVoice("zf_xiaoyi", "zh-CN", "female"),
        NaturalVoice("zm_yunxi", "zh-CN", "male"),
        NaturalVoice("zm_yunyang", "zh-CN", "male"),
    )
}

VOICES = {"en": NATURAL_VOICES, "zh": CHINESE_VOICES}
"""By the language of the conversations."""

ESPEAK_ENTRY = NamedVoice(id=ESPEAK, name="eSpeak", language="en-US", gender="male")
ESPEAK_ENTRIES = {
    "en": ESPEAK_ENTRY,
    "zh": NamedVoice(id=ESPEAK, name="eSpeak", language="zh-CN", gender="male"),
}
