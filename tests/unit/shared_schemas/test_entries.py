import typing
from typing import Any

import msgspec
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.shared_schemas.entries import (
    EPOCHS_PER_TICKET,
    ChunkIn,
    Entry,
    ResultOut,
    StopIn,
    StreamPosition,
    UnreadableEntry,
    check_readable,
    pack,
    unpack,
)
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult
from support.entry_strategies import entries_of

ENTRY_CLASSES: tuple[type[Entry], ...] = typing.get_args(Entry)
TICKETS = st.integers(0, 2**43)
EPOCHS = st.integers(0, EPOCHS_PER_TICKET - 1)
POSITIONS = st.builds(StreamPosition, TICKETS, EPOCHS, st.integers(0, 2**40))


def as_read(flat: list[bytes]) -> dict[bytes, bytes]:
    """The arguments of XADD as a reader receives them."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def redis_order(entry_id: str) -> tuple[int, int]:
    major, minor = entry_id.split("-")
    return int(major), int(minor)


@pytest.mark.parametrize("cls", ENTRY_CLASSES, ids=lambda cls: cls.tag)
@settings(max_examples=40)
@given(data=st.data())
def test_every_field_of_every_entry_survives(cls: type[Entry], data: st.DataObject) -> None:
    entry = data.draw(entries_of(cls))
    assert unpack(as_read(pack(entry))) == entry


def test_more_than_ten_frames_keep_their_order() -> None:
    entry = ChunkIn(audio=b"", frames=tuple(bytes([i]) for i in range(12)))
    assert unpack(as_read(pack(entry))) == entry


def test_media_is_stored_raw_and_not_in_the_header() -> None:
    packed = as_read(pack(ChunkIn(audio=b"\xff\xfe", frames=(b"jpeg1", b"jpeg2"))))
    assert packed[b"audio"] == b"\xff\xfe"
    assert (packed[b"frames0"], packed[b"frames1"]) == (b"jpeg1", b"jpeg2")
    assert orjson.loads(packed[b"h"]) == {"type": "chunk"}


def test_fields_of_a_newer_version_are_ignored() -> None:
    packed = as_read(pack(StopIn(at=3.5)))
    header = orjson.loads(packed[b"h"]) | {"novelty": [1]}
    assert unpack({b"h": orjson.dumps(header), b"extra": b"x"}) == StopIn(at=3.5)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {b"h": b""},
        {b"h": b"{"},
        {b"h": b"[]"},
        {b"h": b"null"},
        {b"h": b"7"},
        {b"h": b'"pause"'},
        {b"h": b"{}"},
        {b"h": b'{"type":"nonsense"}'},
        {b"h": b'{"type":["pause"]}'},
        {b"h": b'{"type":"pause"}'},
        {b"h": b'{"type":"chunk","pcm":"u8"}', b"audio": b""},
        {b"h": b'{"type":"prepare","system_prompt":"x","config":{"top_p":7}}'},
    ],
)
def test_an_entry_of_another_form_is_unreadable(data: dict[bytes, bytes]) -> None:
    with pytest.raises(UnreadableEntry):
        unpack(data)


@given(header=st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4))
def test_no_header_raises_anything_else(header: Any) -> None:
    with pytest.raises(UnreadableEntry):
        unpack({b"h": repr(header).encode()})


@given(position=POSITIONS)
def test_a_position_survives_its_id(position: StreamPosition) -> None:
    assert StreamPosition.parse(position.id()) == position
    assert StreamPosition.parse(position.id().encode()) == position


@given(one=POSITIONS, other=POSITIONS)
def test_positions_sort_as_redis_sorts_their_ids(
    one: StreamPosition, other: StreamPosition
) -> None:
    assert (one < other) == (redis_order(one.id()) < redis_order(other.id()))


@given(ticket=TICKETS, epoch=st.integers(1, EPOCHS_PER_TICKET - 1), n=st.integers(1, 2**40))
def test_before_separates_a_session_from_the_one_before(ticket: int, epoch: int, n: int) -> None:
    entry = StreamPosition(ticket, epoch, n)
    assert StreamPosition.before(ticket) < entry < StreamPosition.before(ticket + 1)


@pytest.mark.parametrize("epoch", [-1, EPOCHS_PER_TICKET])
def test_an_epoch_cannot_overflow_into_another_ticket(epoch: int) -> None:
    with pytest.raises(ValueError, match="epoch"):
        StreamPosition(1, epoch, 1).id()


def test_a_result_has_every_figure_of_the_engine() -> None:
    samples = np.linspace(-1, 1, 5, dtype=np.float32)
    result = UnitResult(is_listen=False, text="hi", audio=samples, n_tokens=3, memo={"tokens": [1]})
    entry = ResultOut.of(
        result, input_n=4, received_at=1.0, read_at=2.0, prefill_ms=3.0, wall_clock_ms=4.0
    )
    assert (entry.text, entry.n_tokens, entry.memo) == ("hi", 3, {"tokens": [1]})
    assert np.frombuffer(entry.audio, "<f4").tolist() == samples.tolist()


class _Token(str):
    """A text of a tokenizer."""


def test_values_of_an_engine_are_stored_as_plain_ones() -> None:
    memo = {"user": _Token("Hi."), "score": np.float64(0.5)}
    samples = np.zeros(0, dtype=np.float32)
    times = dict.fromkeys(("received_at", "read_at", "prefill_ms", "wall_clock_ms"), 0.0)
    entry = ResultOut.of(UnitResult(is_listen=True, audio=samples, memo=memo), input_n=1, **times)
    read = unpack(as_read(pack(entry)), (ResultOut,))
    assert read.memo == {"user": "Hi.", "score": 0.5}
    with pytest.raises(TypeError, match="object does not belong in JSON"):
        pack(StopIn(at=object()))  # type: ignore[arg-type]


def _cycle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kv_cache_length", 2.5),
        ("kv_cache_length", np.int64(2)),
        ("kv_cache_length", True),
        ("cost_llm_ms", float("nan")),
        ("cost_tts_ms", "5"),
        ("text", None),
        ("text", "\ud800"),
        ("end_of_turn", 1),
        ("memo", {"tokens": np.zeros(2)}),
        ("memo", _cycle()),
        ("usage", TokenUsage(input_text=-1)),
        ("usage", TokenUsage(input_text=1.5)),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_no_edge_could_read_is_named(field: str, value: Any) -> None:
    samples = np.zeros(0, dtype=np.float32)
    times = dict.fromkeys(("received_at", "read_at", "prefill_ms", "wall_clock_ms"), 0.0)
    entry = ResultOut.of(UnitResult(is_listen=True, audio=samples), input_n=1, **times)
    check_readable(entry)
    with pytest.raises(UnreadableEntry, match=rf"\$\.{field}"):
        check_readable(msgspec.structs.replace(entry, **{field: value}))
