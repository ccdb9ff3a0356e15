"""The forms of OpenAI's HTTP API."""

import pytest

from antiphon.edge.routes.openai import read_form
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.openai import parse_transcription

HEADERS = {"content-type": "multipart/form-data; boundary=b"}
FILE = ('file"; filename="a.wav', "RIFF")


def form(*parts: tuple[str, str]) -> bytes:
    """The body of a form with these names and values."""
    head = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    return "".join([*(head.format(*part) for part in parts), "--b--\r\n"]).encode()


def test_the_fields_and_the_file_of_a_form() -> None:
    names = [("model", "m"), ("stream", "true"), ("timestamps[]", "a"), ("timestamps[]", "b")]
    fields, file = read_form(HEADERS, form(*names, FILE))
    assert fields == {"model": "m", "stream": "true", "timestamps": ["a", "b"]}
    assert file == b"RIFF"


@pytest.mark.parametrize(
    ("value", "streams"),
    [("true", True), ("True", True), ("1", True), ("false", False), ("False", False), ("0", False)],
)
def test_a_form_asks_for_a_stream_in_the_words_of_any_language(value: str, streams: bool) -> None:
    """Python's `requests` sends True as "True"."""
    fields, _ = read_form(HEADERS, form(("model", "m"), ("stream", value), FILE))
    assert parse_transcription(fields).stream is streams


def test_another_value_of_stream_is_refused() -> None:
    fields, _ = read_form(HEADERS, form(("model", "m"), ("stream", "please"), FILE))
    with pytest.raises(InvalidInput) as refused:
        parse_transcription(fields)
    assert refused.value.field == "stream"


@pytest.mark.parametrize("other", [("a", "x"), ("a[]", "x"), ('a"; filename="a', "x")])
def test_a_form_has_a_limited_number_of_parts(other: tuple[str, str]) -> None:
    read_form(HEADERS, form(*[other] * 63, FILE))
    with pytest.raises(InvalidInput, match="64 parts"):
        read_form(HEADERS, form(FILE, *[other] * 64))


@pytest.mark.parametrize("names", [("model", "model[]"), ("model[]", "model")])
def test_a_field_that_is_a_text_and_a_list_is_refused(names: tuple[str, str]) -> None:
    fields, _ = read_form(HEADERS, form(*((name, "m") for name in names), FILE))
    with pytest.raises(InvalidInput) as refused:
        parse_transcription(fields)
    assert refused.value.field == "model"
