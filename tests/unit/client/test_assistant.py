"""A question in one call."""

from __future__ import annotations

import pydoc
import re

import numpy as np
import pytest

import antiphon
from antiphon.client.assistant import Client
from antiphon.client.errors import NoAnswer
from support.scripted_server import Scripted, Wire


async def test_asking_where_a_loop_runs_is_refused_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=r"use `await client.aask\(\.\.\.\)`"):
        Client("ws://127.0.0.1:1").ask(np.zeros(16000, np.float32))


def test_the_public_names_exist() -> None:
    for name in set(antiphon.__all__) - {"__version__"}:
        assert getattr(antiphon, name).__name__ == name


def test_help_and_completion_show_the_client() -> None:
    assert set(antiphon.__all__) <= set(dir(antiphon))
    shown = pydoc.render_doc(antiphon, renderer=pydoc.plaintext)
    # Python 3.14 writes each parameter of a long signature on a line of its own.
    assert re.search(r"\bask\([\s|]*self,[\s|]*question:", shown)
    assert re.search(r"\bconnect_duplex\(\s*url:", shown)


async def test_a_session_that_ends_early_is_no_reply() -> None:
    async def script(wire: Wire) -> None:
        await wire.send("queue_done")
        await wire.expect("prepare")
        await wire.send("prepared", prompt_length=1, recording_session_id=None)
        await wire.expect("audio_chunk")
        await wire.send("stopped", session_id="s")
        await wire.socket.close()

    async with Scripted(script).running() as server:
        with pytest.raises(NoAnswer, match="the session ended before the reply was complete"):
            await Client(server.url).aask(np.zeros(16000, np.float32))
