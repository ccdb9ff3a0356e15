"""The form parser returns the same file for any chunks of the body."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.recordings.upload import InvalidUpload, MultipartForm

BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def body(file: bytes, *, before: bytes = b"note") -> bytes:
    """A form as a browser sends it: a field, then the file."""
    line = f"--{BOUNDARY}\r\n".encode()
    return b"".join(
        [
            line,
            b'Content-Disposition: form-data; name="note"\r\n\r\n' + before + b"\r\n",
            line,
            b'Content-Disposition: form-data; name="file"; filename="r.webm"\r\n',
            b"Content-Type: video/webm;codecs=vp9,opus\r\n\r\n" + file + b"\r\n",
            f"--{BOUNDARY}--\r\n".encode(),
        ]
    )


TRICKY = st.lists(
    st.sampled_from([b"\r\n", b"--", b"\r\n--", BOUNDARY[:9].encode(), b"-", b"\0", b"x"]),
    max_size=20,
).map(b"".join)


@given(file=st.one_of(TRICKY, st.binary(max_size=300)), cuts=st.lists(st.integers(0, 700)))
def test_any_chunks_give_the_same_file(file: bytes, cuts: list[int]) -> None:
    sent = body(file)
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    form = MultipartForm(CONTENT_TYPE)
    taken = b"".join(form.feed(sent[start:end]) for start, end in itertools.pairwise(places))
    form.end()
    assert taken == file
    assert form.content_type == "video/webm;codecs=vp9,opus"


@given(st.integers(0, len(body(b"x" * 50)) - 5))
def test_an_incomplete_form_is_rejected(length: int) -> None:
    form = MultipartForm(CONTENT_TYPE)
    form.feed(body(b"x" * 50)[:length])
    with pytest.raises(InvalidUpload):
        form.end()


@given(st.binary(max_size=200))
def test_any_body_is_a_form_or_an_error(data: bytes) -> None:
    form = MultipartForm(CONTENT_TYPE)
    try:
        form.feed(data)
        form.end()
    except InvalidUpload:
        return
    assert form.found


def test_a_form_of_many_parts_is_rejected() -> None:
    """Each costs many times its bytes."""
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'.encode()
    MultipartForm(CONTENT_TYPE).feed(part * 100)
    with pytest.raises(InvalidUpload, match="more than 100 parts"):
        MultipartForm(CONTENT_TYPE).feed(part * 101)


def test_the_file_is_not_buffered() -> None:
    """`feed` returns the data at once, except for the possible start of a boundary."""
    head, tail = body(b"|").split(b"|")
    form = MultipartForm(CONTENT_TYPE)
    form.feed(head)
    for _ in range(10):
        assert len(form.feed(b"x" * 65_536)) >= 65_536 - len(BOUNDARY) - 4
    form.feed(tail)
    form.end()
