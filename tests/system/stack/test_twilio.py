"""Telephone calls over Twilio Media Streams, against real processes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from antiphon.shared_schemas.audio import OUTPUT_RATE
from support.ports import free_port
from support.speech import say, transcribe, words
from support.stack import Stack, new_stack, until
from support.twilio_peer import TOKEN, twilio_call

QUICK = (
    '{"slots": 1, "cycle_units": 4, "prepare_ms": 0, "prefill_ms": 0, "listen_ms": 0,'
    ' "speak_ms": 0, "finalize_ms": 0}'
)
KEY = "a-key-that-twilio-does-not-have"
GERMANY = "What is the capital of Germany?"
"""Understood at 8 kHz wherever its chunks begin, unlike "Italy"."""


def token_file(folder: Path) -> Path:
    path = folder / "twilio_auth_token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("twilio")
    with new_stack(folder) as running:
        running.edge(api_keys=KEY, twilio_auth_token_file=token_file(folder))
        running.recorder(recorder_settle_s=0.1)
        running.worker(engine_options=QUICK, slots=1)
        yield running


async def test_a_call(quick: Stack) -> None:
    url = f"{quick.ws_url}/twilio/media"
    async with twilio_call(url, {"greeting": "Good morning to you all."}, pace=8) as peer:
        await until(lambda: len(peer.events("media")) >= 4, within_s=60)
        await until(lambda: len(peer.played) > 12_000, within_s=60)
        await peer.press("5")
        sound = peer.played_samples()
        spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
        assert spectrum.argmax() * OUTPUT_RATE / len(sound) == pytest.approx(220, abs=2)
        names = [mark["mark"]["name"] for mark in peer.events("mark")]
        assert len(names) == len(set(names)) == len(peer.events("media"))
        await peer.send("stop", stop={"accountSid": "AC", "callSid": "CA"})
        await until(lambda: peer.closed is not None, within_s=60)
        assert peer.closed == 1000

    def recorded() -> bool:
        """The key, what the model was told of it, and a mark."""
        journals = [path.read_text() for path in quick.folder.rglob("timeline.jsonl")]
        return any(
            all(f'"{kind}"' in text for kind in ("dtmf", "text_added", "playback"))
            for text in journals
        )

    await until(recorded, within_s=60)


@pytest.mark.parametrize("signature", [None, "", "AAAA", "é"])
async def test_only_twilio_may_call(quick: Stack, signature: str | None) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    if signature is not None:
        headers["X-Twilio-Signature"] = signature
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{quick.ws_url}/twilio/media", additional_headers=headers):
            pass
    assert refused.value.response.status_code == 403


async def test_a_call_that_cannot_begin_ends(quick: Stack) -> None:
    """Twilio continues with the rest of the TwiML."""
    for parameters in ({"time_zone": "Mars"}, {"voice": "nobody"}):
        async with twilio_call(f"{quick.ws_url}/twilio/media", parameters, pace=8) as peer:
            await until(lambda peer=peer: peer.closed is not None, within_s=60)
            assert peer.closed in (1008, 1011)


@pytest.mark.extended
@pytest.mark.speech
async def test_a_spoken_question_and_an_interruption(local_stack: Stack, tmp_path: Path) -> None:
    port = free_port()
    local_stack.edge(port=port, edge_health_port=0, twilio_auth_token_file=token_file(tmp_path))
    greeting = {"greeting": " ".join(f"This is sentence number {n}." for n in range(1, 12))}
    async with twilio_call(f"ws://127.0.0.1:{port}/twilio/media", greeting) as peer:
        await until(lambda: len(peer.played) > 16_000, within_s=60)
        peer.say(say(GERMANY))
        await until(lambda: peer.events("clear"), within_s=60)
        before = len(peer.played)

        async def answered() -> bool:
            answer = peer.played_samples()[before * 3 :]
            transcript = await asyncio.to_thread(transcribe, answer) if len(answer) else ""
            return "berlin" in words(transcript)

        await until(answered, within_s=90, every_s=3.0)
        await peer.send("stop", stop={})
