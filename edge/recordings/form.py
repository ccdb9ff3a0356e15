"""The file in a `multipart/form-data` body, while the body still arrives."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

FIELD = "file"


class BadForm(ValueError):
    """The body is not a form with one file; the message says why."""


class FormFile:
    """Takes the body piece by piece and gives the file's bytes; all other fields are passed over."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise BadForm("the body must be multipart/form-data with a boundary")
        self.content_type = ""
        self.found = False
        self._name, self._value = b"", b""
        self._headers: dict[bytes, bytes] = {}
        self._is_ours = False
        self._ended = False
        self._out: list[bytes] = []
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise BadForm(f"the form cannot be read: {error}") from None

    def feed(self, chunk: bytes) -> bytes:
        """What of the file is in this piece of the body. Raises BadForm."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise BadForm(f"the form cannot be read: {error}") from None
        data = b"".join(self._out)
        self._out.clear()
        return data

    def end(self) -> None:
        """The body is over. Raises BadForm when it broke off or had no file."""
        if not self._ended:
            raise BadForm("the form broke off before its end")
        if not self.found:
            raise BadForm(f"the form has no file under the name {FIELD!r}")

    def _begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        self._is_ours = options.get(b"name") == FIELD.encode()
        if not self._is_ours:
            return
        if self.found:
            raise BadForm(f"the form has more than one {FIELD!r}")
        self.found = True
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_ours:
            self._out.append(data[start:end])

    def _end(self) -> None:
        self._ended = True
