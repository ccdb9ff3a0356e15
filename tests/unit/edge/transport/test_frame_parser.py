"""What the parser of frames counts, and where it stops."""

import logging

import pytest
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode

from antiphon.edge.transport.frame_parser import (
    FRAMES_PER_CALL,
    PIECE_BYTES,
    SMALL_FRAME_BYTES,
    FrameParser,
)
from antiphon.edge.transport.websocket_protocol import read_message
from support.raw_socket import CLOSE, CONT, HANDSHAKE, PING, TEXT, frame


@pytest.fixture
def parser() -> FrameParser:
    """After the handshake."""
    parser = FrameParser(16 * 1024 * 1024, logging.getLogger("test"))
    parser.receive_data(HANDSHAKE)
    (handshake,) = parser.events_received()
    parser.send_response(parser.accept(handshake))  # type: ignore[arg-type]
    parser.data_to_send()
    return parser


def _received(parser: FrameParser) -> list[Frame]:
    return [event for event in parser.events_received() if isinstance(event, Frame)]


def test_a_call_has_a_bounded_number_of_frames(parser: FrameParser) -> None:
    calls, data = 0, 1000 * frame(PING)
    while data or parser.unparsed:
        parser.receive_data(data)
        assert parser.parsed == parser.small == len(_received(parser)) <= FRAMES_PER_CALL
        calls, data = calls + 1, b""
    assert calls == -(-1000 // FRAMES_PER_CALL)
    assert len(parser.data_to_send()) == 1000, "every ping is answered"


def test_a_call_ends_after_a_message(parser: FrameParser) -> None:
    parser.receive_data(frame(TEXT, b"one") + frame(TEXT, b"two") + frame(TEXT, b"three")[:-1])
    assert [event.data for event in _received(parser)] == [b"one"]
    parser.receive_data(b"")
    assert [event.data for event in _received(parser)] == [b"two"]
    assert parser.unparsed
    parser.receive_data(b"")
    assert not _received(parser)
    assert not parser.unparsed
    parser.receive_data(b"e")
    assert [event.data for event in _received(parser)] == [b"three"]


def test_a_message_split_at_every_byte(parser: FrameParser) -> None:
    data = frame(TEXT, b"a" * 200, fin=False) + frame(PING, b"?") + frame(CONT, b"b" * 70_000)
    for position in range(len(data)):
        parser.receive_data(data[position : position + 1])
    kinds = [event.opcode for event in _received(parser)]
    assert kinds == [Opcode.TEXT, Opcode.PING, Opcode.CONT]
    assert parser.incomplete_bytes == 0


@pytest.mark.parametrize("size", [PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 5_000_001])
def test_a_long_frame_is_unmasked_in_pieces_as_it_arrives(parser: FrameParser, size: int) -> None:
    text = (b"0123456789" * (size // 10 + 1))[:size]
    data = Frame(Opcode.TEXT, text).serialize(mask=True) + frame(PING) + frame(TEXT, b"next")
    received: list[Frame] = []
    for start in range(0, len(data), 100_000):
        parser.receive_data(data[start : start + 100_000])
        assert len(parser.reader.buffer) <= PIECE_BYTES + 100_000
        received += _received(parser)
    while parser.unparsed:
        parser.receive_data(b"")
        received += _received(parser)
    *pieces, ping, following = received
    assert len(pieces) == -(-size // PIECE_BYTES)
    assert [piece.opcode for piece in pieces] == [Opcode.TEXT] + [Opcode.CONT] * (len(pieces) - 1)
    assert [piece.fin for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert b"".join(bytes(piece.data) for piece in pieces) == text
    assert (ping.opcode, following.data) == (Opcode.PING, b"next")
    assert parser.incomplete_bytes == 0


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, PIECE_BYTES, PIECE_BYTES + 1])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_a_message_in_one_read_is_parsed_like_one_in_many(
    parser: FrameParser, opcode: Opcode, size: int
) -> None:
    text = (b"0123456789" * (size // 10 + 1))[:size]
    data = Frame(opcode, text).serialize(mask=True)
    kind = "text" if opcode is Opcode.TEXT else "bytes"
    for reads in ([data], [data[:1], data[1:]], [data[:-1], data[-1:]], [data]):
        received: list[Frame] = []
        for read in (*reads, b""):
            if message := read_message(parser, read):
                assert (reads, message) == ([data], (kind, text))
                parsed = [Frame(opcode, message[1])]
                assert not _received(parser)
            else:
                parser.receive_data(read)
                parsed = _received(parser)
            assert parser.parsed == len(parsed)
            assert parser.small == sum(len(each.data) < SMALL_FRAME_BYTES for each in parsed)
            received += parsed
        assert b"".join(bytes(each.data) for each in received) == text
        assert [each.opcode for each in received] == [opcode, Opcode.CONT][: len(received)]
        assert [each.fin for each in received] == [False, True][-len(received) :]
        assert (parser.fragments, parser.incomplete_bytes) == (0, 0)
    assert bool(read_message(parser, data)) == (size <= PIECE_BYTES)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x81\x08unmasked", id="no mask"),
        pytest.param(b"\xc1" + frame(TEXT, b"text")[1:], id="reserved bit"),
        pytest.param(frame(3, b"text"), id="unknown opcode"),
        pytest.param(frame(CONT, b"text"), id="nothing to continue"),
        pytest.param(frame(TEXT, b"one", fin=False) + frame(TEXT, b"two"), id="not continued"),
    ],
)
def test_a_frame_against_the_protocol_is_refused_however_it_is_read(
    parser: FrameParser, data: bytes
) -> None:
    assert read_message(parser, frame(TEXT, b"a message before it"))
    split = data.find(b"two") - 6
    for read in (data[:split], data[split:]) if split > 0 else (data,):
        assert read_message(parser, read) is None
        parser.receive_data(read)
    assert isinstance(parser.parser_exc, ProtocolError)


def test_a_whole_message_after_a_close_is_ignored(parser: FrameParser) -> None:
    parser.receive_data(frame(CLOSE, b"\x03\xe8"))
    _received(parser)
    assert read_message(parser, frame(TEXT, b"late")) is None
    parser.receive_data(frame(TEXT, b"late"))
    assert not _received(parser)


def test_a_payload_is_no_head_of_another_frame(parser: FrameParser) -> None:
    """A read that begins in the middle of a frame may look like a whole message."""
    inner = frame(TEXT, b"inner")
    data = frame(TEXT, inner)
    parser.receive_data(data[: -len(inner)])
    assert read_message(parser, inner) is None
    parser.receive_data(inner)
    assert [event.data for event in _received(parser)] == [inner]


@pytest.mark.parametrize("before", [0, 1000])
def test_a_frame_that_is_too_long_is_refused_by_its_header(
    parser: FrameParser, before: int
) -> None:
    parser.receive_data(frame(TEXT, bytes(before), fin=False))
    size = parser.max_message_size or 0
    parser.receive_data(frame(CONT, length=size - before + 1))
    assert isinstance(parser.parser_exc, PayloadTooBig)


def test_a_long_control_frame_is_refused_before_it_is_complete(parser: FrameParser) -> None:
    parser.receive_data(frame(PING, bytes(PIECE_BYTES), length=8 * PIECE_BYTES))
    assert isinstance(parser.parser_exc, ProtocolError)


def test_fragments_and_bytes_of_an_incomplete_message_are_counted(parser: FrameParser) -> None:
    long, short = frame(CONT, bytes(2000), fin=False), frame(CONT, b"x", fin=False)
    parser.receive_data(frame(TEXT, b"x", fin=False) + 3 * long + 2 * short + long[:100])
    assert (parser.fragments, parser.parsed, parser.small) == (6, 6, 3)
    assert parser.incomplete_bytes == 1 + 6000 + 2 + 100 - len(long) + 2000
    parser.receive_data(long[100:] + frame(CONT))
    assert (parser.fragments, parser.incomplete_bytes) == (0, 0)


def test_a_close_between_fragments_is_answered_with_its_code(parser: FrameParser) -> None:
    """Case 7.1.5 of Autobahn's test suite."""
    parser.receive_data(frame(TEXT, b"first", fin=False) + frame(CLOSE, b"\x03\xe8"))
    assert parser.parser_exc is None
    assert parser.data_to_send() == [Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=False), b""]
