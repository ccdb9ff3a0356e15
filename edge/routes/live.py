"""The WebSocket of OpenAI's Live API."""

import asyncio
from functools import partial

from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.protocols.live import (
    LIVE_LIMIT_S,
    LiveMachine,
    LiveTerms,
    encode_live_error,
)
from antiphon.edge.protocols.live_commands import LiveDecoder, LiveLink
from antiphon.edge.routes.socket_routes import SocketProtocol, add_socket
from antiphon.edge.routes.status import live_engines
from antiphon.edge.session.admission import AdmittedSession
from antiphon.edge.session.session import ProtocolSpec
from antiphon.shared_schemas.states import SessionKind


def _start(context: EdgeContext, admitted: AdmittedSession) -> tuple[LiveDecoder, LiveMachine]:
    link, clock = LiveLink(), asyncio.get_running_loop().time
    expires_at = int(context.broker.clock.now_ms() / 1000 + LIVE_LIMIT_S)
    machine = LiveMachine(admitted.recording, link, LiveTerms(clock, clock(), expires_at))
    return LiveDecoder(context.settings, link, partial(_known_voices, context)), machine


async def _known_voices(context: EdgeContext) -> frozenset[str]:
    return (await live_engines(context)).voice_ids


LIVE = SocketProtocol(
    "openai live", ProtocolSpec(_start, encode_live_error), SessionKind.AUDIO_DUPLEX, "live"
)
add_socket("/v1/live/sessions", "/openai/v1/live/sessions", serve=LIVE.serve)
