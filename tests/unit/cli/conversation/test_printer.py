"""A conversation as the terminal shows it."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from rich.cells import cell_len

from antiphon.cli.conversation.conversation import ConversationResult, SpokenQuestion
from antiphon.cli.conversation.dialogue import ConversationPrinter, summary_lines, unit_line
from antiphon.cli.conversation.latency import UnitLatency
from antiphon.cli.terminal import Terminal
from antiphon.client.duplex import PARSER, Unit
from antiphon.client.errors import ServerError
from antiphon.shared_schemas.messages.duplex import Prepared, Result
from antiphon.shared_schemas.wire import Error, Queued, QueueUpdate


def unit(*, seconds: float = 1.0, **fields: Any) -> Unit:
    data = {"type": "result", "is_listen": True, "current_time": 4000, **fields}
    message = PARSER.parse(orjson.dumps(data).decode())
    assert isinstance(message, Result)
    audio = np.zeros(0 if message.is_listen else int(24000 * seconds), np.float32)
    return Unit(message=message, audio=audio, received_at=0.0)


def printer() -> tuple[ConversationPrinter, io.StringIO]:
    out = io.StringIO()
    return ConversationPrinter(Terminal(file=out, width=60)), out


def test_listening_line() -> None:
    assert unit_line([(unit(), UnitLatency(total=12.4))]).plain == "     4.0 s  listening    12 ms"


def test_speaking_line_shows_the_text_and_the_end_of_the_turn() -> None:
    said = unit(is_listen=False, text=" [x] Paris.", end_of_turn=True)
    line = unit_line([(said, None)]).plain
    assert line == "     4.0 s  speaking         -   [x] Paris.  (end of turn)"


def test_words_that_are_not_final_are_replaced_on_a_terminal() -> None:
    out = io.StringIO()
    shown = ConversationPrinter(Terminal(file=out, width=40, force_terminal=True))
    interim = (
        "What is the cap",
        "",
        "What is\x1b[2J the capital of 日本? And what is its largest city",
    )
    for n, said in enumerate(interim, start=1):
        shown.unit(unit(interim_user_text=said, current_time=1000 * n), None)
    shown.unit(unit(user_text="What is the capital of Japan?", interim_user_text=""), None)
    assert screen_of(out.getvalue()) == [
        *[f"     {n}.0 s  listening        -" for n in range(1, 4)],
        "       you  “What is the capital of Japan?”",
        "     4.0 s  listening        -",
    ]
    before_end, _ = out.getvalue().rsplit("\x1b[2K", 1)
    last = screen_of(before_end)[-1]
    assert last.startswith("       you  …")
    assert last.endswith("what is its largest city")
    assert cell_len(last) < 40


def screen_of(output: str) -> list[str]:
    """The lines that a terminal shows, without colours. It knows `\\r` and the end of a line only."""
    lines = [""]
    for part in re.split(r"(\n|\r|\x1b\[2K)", re.sub(r"\x1b\[[0-9;]*m", "", output)):
        if part == "\n":
            lines.append("")
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif part != "\r":
            assert "\x1b" not in part
            lines[-1] += part
    return lines[:-1] if lines[-1] == "" else lines


def test_words_that_are_not_final_are_not_printed_into_a_file() -> None:
    shown, out = printer()
    shown.unit(unit(interim_user_text="What is the cap"), None)
    assert out.getvalue() == "     4.0 s  listening        -\n"


def test_short_units_share_a_line_per_second_and_state() -> None:
    shown, out = printer()
    for n in range(1, 7):
        shown.unit(unit(current_time=200 * n), UnitLatency(total=n))
    for n, word in enumerate(["The", "", " capital", " is Rome."], start=7):
        said = unit(is_listen=False, text=word, current_time=200 * n, end_of_turn=n == 10)
        shown.unit(said, UnitLatency(total=10 - n))
    assert out.getvalue().splitlines() == [
        "     1.0 s  listening     5 ms",
        "     1.2 s  listening     6 ms",
        "     2.0 s  speaking      3 ms   The capital is Rome.  (end of turn)",
    ]


def test_the_last_units_are_printed_before_what_follows() -> None:
    shown, out = printer()
    shown.unit(unit(current_time=200), None)
    shown.connection(resumed=False)
    assert out.getvalue().splitlines() == [
        "     0.2 s  listening        -",
        "   waiting  the connection broke; trying to connect again",
    ]


def test_a_complete_conversation_in_order_without_truncation() -> None:
    shown, out = printer()
    shown.connected("ws://h", "adx_1")
    shown.place(
        Queued(ticket_id="1", position=2, queue_length=3, eta_seconds=41.6, estimated_wait_s=41.6)
    )
    shown.prepared(Prepared(prompt_length=30, recording_session_id=None))
    shown.question("question.wav", SpokenQuestion(np.ones(24000, np.float32)))
    shown.error(ServerError(Error(error="e", message="too much at once", code="c")))
    result = ConversationResult(answered=True, first_words_s=[1.234])
    result.add(unit(is_listen=False, text="Yes, indeed, and at some length."), None)
    result.add(unit(is_listen=False, text=" Quite."), UnitLatency(total=5.0))
    shown.reply(result, Path("reply.wav"))
    shown.summary(result)
    assert out.getvalue().splitlines() == [
        " connected  ws://h, session adx_1",
        "   waiting  number 2 of 3, about 42 s to go",
        "  prepared  the prompt has 30 tokens",
        "       you  question.wav, 1.5 s, spoken in real time",
        "     error  too much at once",
        "     reply  “Yes, indeed, and at some length. Quite.” (2.0 s of speech, saved in reply.wav)",
        "  answered  1.23 s after the end of the question",
        "      unit  p50 5.0 ms, p99 5.0 ms over 1 units, from chunk sent to result",
    ]


def test_the_wait_for_another_worker() -> None:
    shown, out = printer()
    place = {"ticket_id": "1", "position": 1, "queue_length": 1}
    shown.wait(QueueUpdate(**place, eta_seconds=0.0, estimated_wait_s=0.0))
    shown.wait(QueueUpdate(**place, eta_seconds=0.0, estimated_wait_s=0.0, stale=True))
    shown.wait(None)
    assert out.getvalue().splitlines() == [
        "   waiting  number 1 of 1, about 0 s to go",
        "   waiting  number 1 of 1, the queue cannot be read now",
        " connected  a worker serves the session again",
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("no_worker", "no worker is connected"),
        ("kind_not_served", "no worker serves this kind of session"),
        ("worker_loading", "a worker is loading its model"),
        ("of a newer server", "no worker can take the session"),
        (None, "no worker can take the session"),
    ],
)
def test_a_wait_without_a_worker(reason: str | None, text: str) -> None:
    shown, out = printer()
    shown.place(Queued(ticket_id="1", position=1, queue_length=1, reason=reason))
    assert out.getvalue().splitlines() == [f"   waiting  number 1 of 1, {text}"]


def test_the_summary_names_every_measured_hop() -> None:
    latency = UnitLatency(total=50.0, to_worker=2.0, engine=40.0)
    lines = [text for _, text in summary_lines([latency])]
    assert lines == [
        "p50 50.0 ms, p99 50.0 ms over 1 units, from chunk sent to result",
        "p50 40.0 ms, p99 40.0 ms engine",
        "p50 2.0 ms, p99 2.0 ms pipeline, edge in → worker",
        "p50 8.0 ms, p99 8.0 ms pipeline, worker → client out",
    ]
    assert summary_lines([]) == []
