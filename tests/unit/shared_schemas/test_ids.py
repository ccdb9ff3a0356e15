import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.shared_schemas.ids import (
    ResumeToken,
    duplex_kind,
    is_session_id,
    new_process_id,
    new_recording_id,
)
from antiphon.shared_schemas.states import SessionKind


@given(text=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_valid_ids(text: str) -> None:
    assert is_session_id(text)


@pytest.mark.parametrize(
    "text",
    ["", "a" * 65, "a b", "a/b", "../x", "a\n", "ä", "a.b", "a{b}", "a%2e", "a\0", "\u0661", "a:b"],
)
def test_invalid_ids_are_refused(text: str) -> None:
    assert not is_session_id(text)


@pytest.mark.parametrize(
    ("sid", "kind"),
    [
        ("adx_1", SessionKind.AUDIO_DUPLEX),
        ("audio_duplex_1", SessionKind.AUDIO_DUPLEX),
        ("omni_1", SessionKind.OMNI_DUPLEX),
        ("anything", SessionKind.OMNI_DUPLEX),
        ("x_adx_1", SessionKind.OMNI_DUPLEX),
    ],
)
def test_the_id_names_the_variant(sid: str, kind: SessionKind) -> None:
    assert duplex_kind(sid) is kind


def test_new_ids_are_valid_and_never_repeat() -> None:
    recordings = {new_recording_id() for _ in range(100)}
    assert len(recordings) == 100
    assert all(len(name) == 32 and is_session_id(name) for name in recordings)
    assert new_process_id("worker") != new_process_id("worker")
    assert new_process_id("edge").startswith("edge-")


def test_a_token_is_read_back_from_its_text() -> None:
    token = ResumeToken.new("adx_1")
    assert ResumeToken.parse(token.text) == token
    assert token.matches(token.digest)


def test_tokens_cannot_be_guessed_and_are_not_printed() -> None:
    one, other = ResumeToken.new("adx_1"), ResumeToken.new("adx_1")
    assert one.secret != other.secret
    assert len(one.secret) >= 32
    assert not one.matches(other.digest)
    assert one.secret not in repr(one)
    assert one.secret not in one.digest


@pytest.mark.parametrize(
    "text", ["", ".", "adx_1", "adx_1.", ".secret", "a b.secret", "x" * 65 + ".s"]
)
def test_invalid_tokens(text: str) -> None:
    assert ResumeToken.parse(text) is None


def test_no_token_matches_an_empty_digest() -> None:
    assert not ResumeToken("adx_1", "").matches("")
