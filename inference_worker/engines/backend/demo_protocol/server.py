"""Servers of the `/backend` protocol, and the dialects in which they speak it."""

from collections.abc import Sequence
from dataclasses import replace

from antiphon.inference_worker.engines.backend.half_duplex import TurnHistory
from antiphon.inference_worker.engines.backend.server import (
    HttpFailure,
    Server,
    ServerAccess,
    ServerUnavailable,
)
from antiphon.inference_worker.engines.types import UnsupportedContent
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
    VideoPart,
)


class Dialect:
    """That of the demo's own backend. The methods raise UnsupportedContent for what a server ignores."""

    product = "the demo's backend"
    late_sound = False
    """Sound arrives after the text of its unit, and even after the unit's end."""
    counts_prompt = False
    """Its number of tokens of an answer includes the prompt."""

    def system_prompt(self, prompt: str, config: DuplexConfig) -> str:  # noqa: ARG002
        """The prompt of a full-duplex session with these settings."""
        return prompt

    def frames(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        """Those of a unit's frames that are sent."""
        return frames

    def check_request(self, history: Sequence[ConversationMessage], *, thinks: bool) -> None:
        """Check a chat request."""

    def check_system(self, system: ConversationMessage) -> None:
        """Check the system message of a half-duplex session."""

    def turns(self, history: TurnHistory) -> list[ConversationMessage]:
        """The messages of a half-duplex turn."""
        return history.messages()


class LlamaDialect(Dialect):
    """That of `llama-omni-server`.

    It uses the media of the last message only, and one picture or sound of it. It keeps the prompt and the
    settings of its last session for what a session does not state.
    """

    product = "llama-omni-server"
    late_sound = True
    counts_prompt = True

    def system_prompt(self, prompt: str, config: DuplexConfig) -> str:
        """It puts the prompt where its system message would end."""
        if config.ls_mode != "explicit":
            text = f"{self.product} has only the mode 'explicit'"
            raise UnsupportedContent(text, "config.ls_mode")
        return f"<|audio_end|>{prompt}<|im_end|>\n"

    def frames(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return frames[-1:]

    def check_request(self, history: Sequence[ConversationMessage], *, thinks: bool) -> None:
        for index, message in enumerate(history):
            self._check_message(index, message, is_last=index == len(history) - 1)
        if thinks:
            text = f"{self.product} cannot think before it answers"
            raise UnsupportedContent(text, "enable_thinking")

    def _check_message(self, index: int, message: ConversationMessage, *, is_last: bool) -> None:
        """Sound in a system message is a voice."""
        pictures = sounds = 0
        for place, part in enumerate(message.parts):
            pictures += isinstance(part, ImagePart | VideoPart)
            sounds += isinstance(part, AudioPart | VideoPart)
            is_voice = message.role is Role.SYSTEM and isinstance(part, AudioPart)
            if isinstance(part, TextPart) or is_voice:
                continue
            field = f"messages.{index}.content.{place}"
            if not is_last:
                text = f"{self.product} uses pictures and sound of the last message only"
                raise UnsupportedContent(text, field)
            if pictures > 1 or sounds > 1:
                text = f"{self.product} uses one picture and one sound of a message"
                raise UnsupportedContent(text, field)

    def check_system(self, system: ConversationMessage) -> None:
        for index, part in enumerate(system.parts):
            if not isinstance(part, TextPart | AudioPart):
                text = f"{self.product} uses no pictures of a system message"
                raise UnsupportedContent(text, f"system_content.{index}")

    def turns(self, history: TurnHistory) -> list[ConversationMessage]:
        """It drops the history unless the newest message has text."""
        *earlier, newest = history.messages(earlier_sound=False)
        text = (TextPart(" "),) if len(earlier) > 1 else ()
        return [*earlier, replace(newest, parts=(*newest.parts, *text))]


DEMO = Dialect()
LLAMA = LlamaDialect()


_TIMEOUT_S = 5.0


class DemoServer(Server):
    """Holds one session at a time."""

    protocol = "/backend"
    one_session = True

    def __init__(self, access: ServerAccess, dialect: Dialect) -> None:
        super().__init__(access)
        self.dialect = dialect

    @property
    def product(self) -> str:
        return self.dialect.product

    def room(self, most: int) -> int:  # noqa: ARG002
        try:
            status, page = self.access.call("GET", "/health", timeout_s=_TIMEOUT_S)
        except HttpFailure as error:
            raise ServerUnavailable(str(error)) from error
        if status != 200:
            raise ServerUnavailable(f"GET {self.address}/health answered {status}")
        if page.get("active_session_id"):
            raise ServerUnavailable(f"{self.address} still has a session")
        return 1

    def describe(self) -> str:
        return f"answers: {self.product}"
