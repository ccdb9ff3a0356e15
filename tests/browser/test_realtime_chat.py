"""`/v1/realtime?mode=chat` in a browser: a client written after the public demo's documentation of the mode.

Like the demo's chat page, it takes a diagnostic, or a reason that it does not know, for an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pybase64
import pytest

from support.browser_user import Visitor
from support.edge_harness import base64_audio, picture
from support.realtime_schema import CLIENT_V2, SERVER_V2
from support.shared_stack import running_stack
from support.stack import Stack

ASK = """(inputs) => new Promise((resolve) => {
  const socket = new WebSocket(`ws://${location.host}/v1/realtime?mode=chat`);
  const sent = [], received = [], answers = [], errors = [];
  let texts = [], sounds = 0;
  const send = (event) => { sent.push(event); socket.send(JSON.stringify(event)); };
  const next = () => {
    if (inputs.length) send({ type: "input.append", input: inputs.shift() });
    else send({ type: "session.close", reason: "turn_done" });
  };
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    received.push(event);
    if (event.type === "session.queue_done") send({ type: "session.init", payload: {} });
    if (event.type === "session.created") next();
    if (event.type === "response.output.delta" && event.kind === "text") texts.push(event.text);
    if (event.type === "response.output.delta" && event.kind === "audio") sounds += 1;
    if (event.type === "response.done") {
      answers.push({ text: event.text, audio: event.audio ?? "", reason: event.reason, texts, sounds });
      texts = [], sounds = 0;
      next();
    }
    if (event.type === "error") errors.push(event.error.message);
    if (event.type === "session.closed") {
      const known = ["turn_done", "client_closed"].includes(event.reason);
      if (event.diagnostic?.message || !known) errors.push(event.diagnostic?.message ?? event.reason);
    }
  };
  socket.onclose = ({ code }) => resolve({ sent, received, answers, errors, code });
})"""
"""Sends the inputs one after the other on one connection, and resolves when the server has closed it."""

QUESTION = {"role": "user", "content": "Reply with exactly: test"}
DOCUMENTED: dict[str, Any] = {
    "messages": [QUESTION],
    "streaming": True,
    "generation": {"max_new_tokens": 64, "length_penalty": 1.1},
    "image": {"max_slice_nums": 1},
    "omni_mode": False,
    "tts": {"enabled": False},
    "use_tts_template": False,
    "enable_thinking": False,
}
"""The request with every field that the documentation shows."""
SPOKEN = {"tts": {"enabled": True, "ref_audio_data": base64_audio(8000)}, "use_tts_template": True}
PARTS = [
    {"type": "text", "text": "Describe this image"},
    {"type": "image", "data": pybase64.b64encode_as_string(picture())},
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Its answers are short, unlike those of the shared stack."""
    folder = tmp_path_factory.mktemp("chat")
    with running_stack(folder, "simulated", slots=2, engine_options='{"speak_ms": 5}') as running:
        yield running


async def _ask(visitor: Visitor, *inputs: dict[str, Any]) -> dict[str, Any]:
    page = await visitor.open("/")
    seen: dict[str, Any] = await page.evaluate(ASK, list(inputs))
    for event in seen["received"]:
        SERVER_V2.validate(event)
    for event in seen["sent"]:
        CLIENT_V2.validate(event)
    assert (seen["errors"], seen["code"]) == ([], 1000)
    return seen


async def test_a_client_after_the_documentation_asks_and_closes(visitor: Visitor) -> None:
    several = {"role": "user", "content": PARTS}
    seen = await _ask(visitor, DOCUMENTED, {"messages": [several]})
    for answer in seen["answers"]:
        assert "".join(answer["texts"]) == answer["text"] != ""
        assert (answer["audio"], answer["sounds"], answer["reason"]) == ("", 0, "turn_end")
    assert len(seen["answers"]) == 2
    assert [event["type"] for event in seen["received"]][:2] == [
        *("session.queue_done", "session.created")
    ]
    assert seen["received"][-1]["type"] == "session.closed"


async def test_an_answer_is_spoken_in_pieces_or_at_once(visitor: Visitor) -> None:
    request = DOCUMENTED | SPOKEN
    seen = await _ask(visitor, request, request | {"streaming": False})
    pieces, whole = seen["answers"]
    assert "".join(pieces["texts"]) == pieces["text"] != ""
    assert (pieces["sounds"] > 0, pieces["audio"]) == (True, "")
    assert (whole["texts"], whole["sounds"], bool(whole["text"])) == ([], 0, True)
    assert np.frombuffer(pybase64.b64decode(whole["audio"]), "<f4").size > 2400
