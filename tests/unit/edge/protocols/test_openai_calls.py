"""The machine of calls by WebRTC, without a connection and without a worker."""

from typing import Any

import numpy as np
import pytest

from antiphon.edge.errors import explain
from antiphon.edge.protocols.openai_realtime.call import CallDecoder, CallMachine
from antiphon.edge.protocols.openai_realtime.track import HeardSound, PlaybackReport
from antiphon.shared_schemas.audio import OUTPUT_RATE, float_bytes
from antiphon.shared_schemas.entries import DeltaOut, GeneratingOut, RespondIn, TruncateItemIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from support.openai_realtime_edge import RealtimeClient

SECOND = float_bytes(np.full(OUTPUT_RATE, 0.1, np.float32))


@pytest.fixture
def client() -> RealtimeClient:
    client = RealtimeClient()
    client.machine = CallMachine(client.state, 0.0, 3600.0)
    return client


@pytest.mark.parametrize("conversation", ["auto", "none"])
def test_an_item_is_cut_where_its_playback_was_cleared(
    client: RealtimeClient, conversation: str
) -> None:
    """An answer outside of the conversation has no item there."""
    client.grant()
    client.send("response.create", response={"conversation": conversation})
    [asked] = [each for each in client.forwarded if isinstance(each, RespondIn)]
    began: dict[str, Any] = {
        "speech_duration_ms": 0,
        "response_id": asked.response_id,
        "item_id": "item_1",
    }
    client.deliver(GeneratingOut(input_n=1, turn_index=0, **began))
    said = client.deliver(DeltaOut(text_delta="Hello.", audio=SECOND))
    play, *more = [each for each in said if each["type"] == "track"]
    assert sum(len(each["pcm"]) for each in (play, *more)) == 2 * OUTPUT_RATE
    client.forwarded.clear()
    report = PlaybackReport("cleared", play["response_id"], play["item_id"], 400)
    events = client.take(client.machine.receive(report))
    cut = ["conversation.item.truncated"] if conversation == "auto" else []
    assert [each["type"] for each in events] == ["output_audio_buffer.cleared", *cut]
    assert [type(each) for each in client.forwarded] == [TruncateItemIn] * len(cut)


async def test_an_error_of_the_track_names_no_event(client: RealtimeClient) -> None:
    client.machine.granted()
    decoder = CallDecoder(client.decoder, client.state)
    cleared = await decoder.decode('{"type":"input_audio_buffer.clear","event_id":"e1"}')
    client.machine.receive(cleared)
    errors = []
    for _ in range(5):
        client.machine.receive(await decoder.decode(HeardSound(bytes(3200))))
        refused = InvalidInput("too much", field="type", code=ErrorCode.INPUT_BACKPRESSURE)
        errors += client.take(client.machine.report(explain(refused)))
    assert [each["error"]["event_id"] for each in errors] == [None]
