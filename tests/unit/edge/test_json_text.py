"""JSON that no parser can use is told apart from text that is not JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import NotJson
from antiphon.edge.json_text import check_depth, load_json
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

UNUSABLE = {
    "1e309": (None, "out of range"),
    '{"a":[0,{"b":-1e309}]}': ("a.1.b", "out of range"),
    '{"type":' + "1" * 400 + "}": ("type", "out of range"),
    '{"type":' + "1" * 5000 + "}": ("type", "out of range"),
    '"\\ud800"': (None, "half of a surrogate pair"),
    '{"text":"a\\udfffb"}': ("text", "half of a surrogate pair"),
    '{"\\ud83d":1}': (None, "half of a surrogate pair"),
    '{"a":1e309,"a":1}': (None, "cannot be used"),
    '{"' + "n" * 1000 + '":1e309}': ("n" * 64, "out of range"),
}
NOT_JSON = (
    *("", " ", "{", "[1,]", "NaN", "-Infinity", '{"a":NaN}', '{"a":1e309', "[1e309] x", "01"),
    *('"\\ud800', '"\t1e309"', "\ufeff1e309", '{"a":nan}', "1e309\0", "[" * 800),
)


@pytest.mark.parametrize("text", UNUSABLE)
def test_values_that_cannot_be_used_are_named(text: str) -> None:
    field, reason = UNUSABLE[text]
    for frame in (text, text.encode()):
        with pytest.raises(InvalidInput, match=reason) as refused:
            load_json(frame)
        assert (refused.value.code, refused.value.field) == (ErrorCode.INVALID_FIELD, field)
        assert len(refused.value.message) < 500


@pytest.mark.parametrize("text", NOT_JSON)
def test_text_that_is_not_json(text: str) -> None:
    for frame in (text, text.encode()):
        with pytest.raises(NotJson):
            load_json(frame)


@pytest.mark.parametrize("data", [b'"\xff"', b"\xff\xfe1\0", '"1e309"'.encode("utf-16")])
def test_bytes_that_are_not_utf8(data: bytes) -> None:
    with pytest.raises(NotJson):
        load_json(data)


@pytest.mark.parametrize("depth", [1025, 20_000])
def test_json_that_is_nested_too_deep(depth: int) -> None:
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1e309" + "}" * depth):
        with pytest.raises(InvalidInput, match="nested too deep") as refused:
            load_json(text)
        assert refused.value.code is ErrorCode.TOO_COMPLEX


def test_depths_are_counted() -> None:
    for text in ("7", "[]", '{"a":[[[0]]],"b":{"c":{"d":1}}}'):
        check_depth(json.loads(text), 4)
    with pytest.raises(InvalidInput, match="nested too deep"):
        check_depth(json.loads('{"a":[0,{"b":[1]}]}'), 2)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(VALUES)
def test_json_is_read_or_a_field_is_named(value: object) -> None:
    """The texts include half surrogate pairs, and the integers have up to 400 digits."""
    try:
        load_json(json.dumps(value))
    except InvalidInput as error:
        assert error.code is ErrorCode.INVALID_FIELD  # noqa: PT017 - either outcome is right
        assert "cannot be used" not in error.message  # noqa: PT017
