"""`record: false` in any of its places reaches the entry that the recorder reads."""

from typing import Any

import orjson
import pytest

from antiphon.edge.json_text import Utf8Text
from antiphon.edge.protocols.chat import decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder
from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.errors import InvalidInput
from support.edge_harness import no_uploaded_voices

LIMITS = EdgeSettings()
PREPARE = {"type": "prepare"}
UPDATE = {"type": "session.update", "session": {"instructions": "Be brief."}}
CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


async def _duplex(**fields: Any) -> bool:
    entry: Any = await DuplexDecoder(LIMITS, no_uploaded_voices).decode(
        orjson.dumps({**PREPARE, **fields}).decode()
    )
    return bool(entry.config.record)


async def _half_duplex(**fields: Any) -> bool:
    entry: Any = await HalfDuplexDecoder(LIMITS).decode(
        orjson.dumps({**PREPARE, **fields}).decode()
    )
    return bool(entry.config.record)


async def _realtime(**fields: Any) -> bool:
    event = {**UPDATE, "session": {**UPDATE["session"], **fields}}  # type: ignore[dict-item]
    entry: Any = await RealtimeDecoder(LIMITS, video=True).decode(orjson.dumps(event).decode())
    return bool(entry.config.record)


async def _chat(**fields: Any) -> bool:
    text = orjson.dumps({**CHAT, **fields}).decode()
    return (await decode_request(text, LIMITS, no_uploaded_voices)).options.record


async def _http_chat(**fields: Any) -> bool:
    body = Utf8Text(orjson.dumps({**CHAT, **fields}))
    request = await decode_request(body, LIMITS, no_uploaded_voices, streaming=False)
    return request.options.record


@pytest.mark.parametrize("ask", [_duplex, _half_duplex, _realtime, _chat, _http_chat])
async def test_every_protocol_may_refuse_recording(ask: Any) -> None:
    assert await ask() is True
    assert await ask(record=True) is True
    assert await ask(record=False) is False
    with pytest.raises(InvalidInput) as caught:
        await ask(record="no")
    assert caught.value.field is not None
    assert caught.value.field.endswith("record")


@pytest.mark.parametrize("ask", [_duplex, _half_duplex])
async def test_a_refusal_in_either_place_counts(ask: Any) -> None:
    assert await ask(config={"record": False}) is False
    assert await ask(config={"record": False}, record=True) is False
    assert await ask(config={"record": True}, record=False) is False
