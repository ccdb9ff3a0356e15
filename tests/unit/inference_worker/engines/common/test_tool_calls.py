"""Calls of tools in the text of a model, wherever the pieces end."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from antiphon.inference_worker.engines.common.tool_calls import ToolCallReader, read_tool_calls
from antiphon.inference_worker.engines.types import Delta

NAMES = {"get_weather", "add"}
ROME = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
ADD = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2, {"c": "</x>"}]}}</tool_call>'

UNUSABLE = [
    f"<tool_call>{text}</tool_call>"
    for text in (
        '{"name": ["add"]}',
        '{"name": {"add": 1}, "arguments": {}}',
        '{"name": "add", "arguments": {"a": "\\ud800"}}',
        '{"name": "add", "arguments": {"a": NaN}}',
        '{"name": "add", "arguments": {"a": ' + "[" * 40 + "]" * 40 + "}}",
        '{"name": "add", "arguments": {"a": ' + "[" * 2000 + "]" * 2000 + "}}",
    )
]
"""What a history would refuse when it comes back, or no message can have."""

Found = tuple[str, list[tuple[str, str]]]


def read(pieces: list[str]) -> Found:
    reader, text, calls = ToolCallReader(NAMES), "", []
    for piece in pieces:
        shown, found = reader.feed(piece)
        text += shown
        calls += [(call.name, call.arguments) for call in found]
    return text + reader.finish(), calls


@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        ("Hello, 1 < 2 <b>", "Hello, 1 < 2 <b>", []),
        (" two  lines\n\n", " two  lines\n\n", []),
        (ROME, "", [("get_weather", '{"city": "Rome"}')]),
        (f"Let me see.\n{ROME}\n", "Let me see.", [("get_weather", '{"city": "Rome"}')]),
        (
            f"{ROME}\n{ADD}",
            "",
            [("get_weather", '{"city": "Rome"}'), ("add", '{"a": 1, "b": [2, {"c": "</x>"}]}')],
        ),
        ('<tool_call>{"name": "add"}</tool_call>', "", [("add", "{}")]),
        (
            "Rome: <tool_call>{not JSON}</tool_call>!",
            "Rome: <tool_call>{not JSON}</tool_call>!",
            [],
        ),
        ('<tool_call>{"name": "rm"}</tool_call>', '<tool_call>{"name": "rm"}</tool_call>', []),
        ('<tool_call>["add"]</tool_call>', '<tool_call>["add"]</tool_call>', []),
        (
            '<tool_call>{"name": "add", "arguments": 3}</tool_call>',
            '<tool_call>{"name": "add", "arguments": 3}</tool_call>',
            [],
        ),
        *((call, call, []) for call in UNUSABLE),
        (f"Wait. {ROME[:-20]}", "Wait.", []),
        ("<tool_", "<tool_", []),
    ],
)
def test_text_and_calls(written: str, text: str, calls: list[tuple[str, str]]) -> None:
    assert read([written]) == (text, calls)
    assert read(list(written)) == (text, calls)
    for cut in range(len(written)):
        assert read([written[:cut], written[cut:]]) == (text, calls)


def test_each_call_has_an_id_of_its_own() -> None:
    _, calls = ToolCallReader(NAMES).feed(ROME + ROME)
    assert len({call.id for call in calls}) == 2


def test_text_is_shown_as_soon_as_it_cannot_be_a_call() -> None:
    reader = ToolCallReader(NAMES)
    assert [reader.feed(piece)[0] for piece in ("I", " am", " <", "b> ", "ok")] == [
        "I",
        " am",
        "",
        " <b>",
        " ok",
    ]


def test_closing_the_pieces_closes_the_answer() -> None:
    closed = []

    def answer() -> Iterator[Delta]:
        try:
            while True:
                yield Delta(text="word ", n_tokens=1)
        finally:
            closed.append(True)

    with closing(read_tool_calls(answer(), NAMES)) as pieces:  # type: ignore[arg-type]
        assert next(pieces).n_tokens == 1
    assert closed
