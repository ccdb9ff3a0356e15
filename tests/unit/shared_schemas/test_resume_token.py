from __future__ import annotations

import pytest

from antiphon.shared_schemas.resume_token import ResumeToken


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
