"""Samples of `/v1/realtime?mode=chat`: every state of a connection, which carries several requests."""

from collections.abc import Sequence

import orjson

from antiphon.edge.errors import Close, NotJson
from antiphon.edge.protocols.machine import Action, Finish, Forward, Phase, Send
from antiphon.edge.protocols.realtime_chat import (
    RealtimeChatDecoder,
    RealtimeChatMachine,
    check_order,
    closed_by_client,
    decode_chat_event,
)
from antiphon.edge.protocols.realtime_codec import encode_v2_error
from antiphon.shared_schemas.entries import ChatDoneOut, DeltaOut
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.realtime import SessionClose
from antiphon.shared_schemas.messages.realtime_v2 import SessionCreatedV2, SessionInit
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import no_uploaded_voices
from support.protocol_driver import DrivenConnection, Frame, Protocol
from support.protocol_samples import BROKEN, FULL, GRANTED, MISTAKES, SETTINGS

SID = "chat_7"
NOT_CREATED = "waiting for session.init"
NO_REQUEST = "waiting for a request"


class ChatModeConnection(DrivenConnection):
    """There is a machine while a request is answered."""

    _created = False
    _requests = 0

    @property
    def state(self) -> str:
        if self._machine is not None:
            return super().state
        return NO_REQUEST if self._created else NOT_CREATED

    async def step(self, step: object) -> list[Action]:
        """A request that does not close the connection ends without a Finish."""
        actions = await super().step(step)
        machine = self._machine
        if not (self.closed and machine is not None) or machine.closing:
            return actions
        self._machine, self.closed = None, False
        return [action for action in actions if not isinstance(action, Finish)]

    async def _step(self, step: object) -> Sequence[Action]:
        if self._machine is None and not isinstance(step, str | bytes):
            return []
        return await super()._step(step)

    async def _send(self, frame: Frame) -> Sequence[Action]:
        if self._machine is not None:
            return await super()._send(frame)
        try:
            event = await decode_chat_event(frame, SETTINGS, no_uploaded_voices)
            if isinstance(event, SessionClose):
                return [Send(closed_by_client(SID)), Finish(Close.NORMAL, EndReason.STOPPED)]
            check_order(event, created=self._created)
        except (InvalidInput, NotJson) as error:
            return self._refuse(error, Close.POLICY)
        if isinstance(event, SessionInit):
            self._created = True
            return [Send(SessionCreatedV2(session_id=SID, prompt_length=0, mode="turn_based"))]
        self._requests += 1
        self._machine = RealtimeChatMachine(SID, self._requests)
        self._granted = False
        return [Forward(event)]


def _frame(type_: str, **fields: object) -> str:
    return orjson.dumps({"type": type_, **fields}).decode()


_INIT = _frame("session.init", payload={})
_ASK = _frame("input.append", input={"messages": [{"role": "user", "content": "Hello."}]})
_CLOSE = _frame("session.close")
_DONE = ChatDoneOut(text="Hi.", generated_tokens=2, input_tokens=9, duration_ms=12.5)

CHAT_MODE = Protocol(
    path="/v1/realtime?mode=chat",
    open=lambda: (RealtimeChatDecoder(SETTINGS), None),
    setup={
        NOT_CREATED: (),
        NO_REQUEST: (_INIT,),
        RealtimeChatMachine.PHASE_TEXT[Phase.QUEUED]: (_INIT, _ASK),
        RealtimeChatMachine.PHASE_TEXT[Phase.ACTIVE]: (_INIT, _ASK, GRANTED, _DONE, _ASK, GRANTED),
        RealtimeChatMachine.PHASE_TEXT[Phase.STOPPING]: (_INIT, _ASK, GRANTED, _CLOSE),
    },
    messages={"session.init": _INIT, "input.append": _ASK, "session.close": _CLOSE},
    mistakes={
        **MISTAKES,
        "`input.append` without `messages`": _frame("input.append", input={}),
        "`session.update`": _frame("session.update", session={"instructions": "Be brief."}),
    },
    entries=(DeltaOut(text_delta="Hi", audio=bytes(4)), _DONE, BROKEN, FULL),
    terminal=frozenset({"session.closed"}),
    encode_error=encode_v2_error,
    connection=ChatModeConnection,
    stop="session.close",
    errors_end=True,
)
