"""Hypothesis strategies for stream entries, derived from the fields of the classes."""

import types
import typing
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import fields

from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.config import (
    ChatOptions,
    DuplexConfig,
    GenerationConfig,
    HalfDuplexConfig,
    TtsConfig,
    TurnsConfig,
    VadConfig,
)
from antiphon.shared_schemas.entries import Entry, TextKind
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import FirstAudio, TokenUsage

texts = st.text(max_size=40)
finite = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(min_value=-(2**53), max_value=2**53)
counts = st.integers(min_value=0, max_value=2**53)
json_values = st.recursive(
    st.none() | st.booleans() | integers | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
metrics = st.dictionaries(texts, json_values, max_size=4)
blobs = st.binary(max_size=64)

configs = st.builds(
    DuplexConfig,
    generate_audio=st.booleans(),
    ls_mode=st.sampled_from(["explicit", "implicit"]),
    force_listen_count=st.integers(0, 1000),
    temperature=st.floats(0, 2),
    top_k=st.integers(0, 1000),
    top_p=st.floats(0.01, 1.0),
    listen_prob_scale=st.floats(0, 100),
    chunk_ms=st.integers(100, 5000),
    greeting=texts,
)
generation = st.builds(
    GenerationConfig,
    max_new_tokens=st.integers(1, 4096),
    length_penalty=st.floats(0.1, 5.0),
    temperature=st.floats(0, 2),
    top_k=st.none() | st.integers(0, 1000),
)
speaking = st.builds(TtsConfig, enabled=st.booleans())

detectors = st.builds(VadConfig, threshold=st.floats(0.1, 0.9), speech_pad_ms=st.integers(0, 1000))

_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: integers,
    float: finite,
    str: texts,
    bytes: blobs,
    dict[str, Any]: metrics,
    tuple[int, ...]: st.lists(integers, max_size=4).map(tuple),
    tuple[bytes, ...]: st.lists(blobs, max_size=3).map(tuple),
    PcmFormat: st.sampled_from(PcmFormat),
    list[list[str]]: st.lists(st.lists(texts, max_size=2), max_size=3),
    TextKind: st.sampled_from(TextKind),
    list[dict[str, Any]]: st.lists(metrics, max_size=3),
    DuplexConfig: configs,
    list[str | None]: st.lists(st.none() | texts, max_size=3),
    HalfDuplexConfig: st.builds(
        HalfDuplexConfig, greeting=texts, vad=detectors, generation=generation, tts=speaking
    ),
    TurnsConfig: st.builds(
        TurnsConfig,
        instructions=texts,
        vad=st.none() | detectors,
        responds=st.booleans(),
        generation=generation,
        tts=speaking,
        tools=st.lists(metrics, max_size=3),
    ),
    ChatOptions: st.builds(
        ChatOptions,
        streaming=st.booleans(),
        generation=generation,
        tts=speaking,
        max_slice_nums=st.none() | st.integers(1, 9),
    ),
    FirstAudio: st.builds(
        FirstAudio, asked_at=finite, kind=st.sampled_from(SessionKind), engine=texts
    ),
    TokenUsage: st.builds(TokenUsage, input_text=counts, input_audio=counts, output_text=counts),
    types.NoneType: st.none(),
}


def entries_of(cls: type[Entry]) -> st.SearchStrategy[Entry]:
    """Sets every field explicitly."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{item.name: _strategy(hints[item.name]) for item in fields(cls)})


def _strategy(hint: Any) -> st.SearchStrategy[Any]:
    if isinstance(hint, types.UnionType):
        return st.one_of(*(_strategy(part) for part in typing.get_args(hint)))
    return _BY_TYPE[hint]
