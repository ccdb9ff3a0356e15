"""The WebSocket of Twilio Media Streams."""

import asyncio

from antiphon.edge.access.guards import TWILIO
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.protocols.twilio import TwilioDecoder, TwilioMachine, encode_twilio_error
from antiphon.edge.routes.socket_routes import SocketProtocol, add_socket
from antiphon.edge.session.admission import AdmittedSession
from antiphon.edge.session.session import ProtocolSpec
from antiphon.shared_schemas.states import SessionKind


def _start(context: EdgeContext, _admitted: AdmittedSession) -> tuple[TwilioDecoder, TwilioMachine]:
    return TwilioDecoder(context.settings), TwilioMachine(asyncio.get_running_loop().time)


TWILIO_MEDIA = SocketProtocol(
    "twilio",
    ProtocolSpec(_start, encode_twilio_error),
    SessionKind.AUDIO_DUPLEX,
    "phone",
    counts_clients=False,
)
add_socket("/twilio/media", serve=TWILIO_MEDIA.serve, guard=TWILIO)
