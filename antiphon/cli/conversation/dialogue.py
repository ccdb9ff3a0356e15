"""Conversations of `antiphon talk` and the demo on the terminal, and saving the reply."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from antiphon.cli.conversation.conversation import (
    ConversationResult,
    SpokenQuestion,
    ask,
    in_background,
    listen,
    speak,
)
from antiphon.cli.conversation.latency import UnitLatency, hop_spread
from antiphon.cli.conversation.sound import Headset, save_reply
from antiphon.cli.terminal import Terminal
from antiphon.client.duplex import DuplexSession, Unit, connect_duplex
from antiphon.client.errors import ServerError, without_password
from antiphon.client.options import ClientOptions
from antiphon.client.session import prepared_within
from antiphon.client.sound import load_wav
from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT, Prepared
from antiphon.shared_schemas.states import wait_reason_text
from antiphon.shared_schemas.visible_text import visible_line
from antiphon.shared_schemas.wire import Queued, QueueUpdate

_LABEL = 10
_LINE_MS = 1000


class UnitLines:
    """Puts the units of a second on one line, as long as the model only listens or only speaks."""

    def __init__(self) -> None:
        self._held: list[tuple[Unit, UnitLatency | None]] = []
        self._shown_ms = 0

    def add(self, unit: Unit, latency: UnitLatency | None) -> Iterator[Text]:
        """The lines that are complete with this unit."""
        if self._held and self._held[-1][0].is_listen != unit.is_listen:
            yield from self.rest()
        self._held.append((unit, latency))
        is_second = unit.message.current_time - self._shown_ms >= _LINE_MS
        if is_second or unit.end_of_turn:
            yield from self.rest()

    def rest(self) -> Iterator[Text]:
        """The line of the units that are not on one yet."""
        if self._held:
            self._shown_ms = self._held[-1][0].message.current_time
            held, self._held = self._held, []
            yield unit_line(held)


class ConversationPrinter:
    """A ConversationListener that prints one line per event.

    What the user has said so far is on the last line, until the next line takes its place.
    """

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._units = UnitLines()
        self._has_interim = False

    def connected(self, url: str, session_id: str) -> None:
        self._line("connected", f"{url}, session {session_id}", "dim")

    def place(self, place: Queued) -> None:
        text = f"number {place.position} of {place.queue_length}, {wait_text(place)}"
        self._line("waiting", text, "yellow")

    def wait(self, place: Queued | None) -> None:
        """The session has lost its worker and waits at a place; None: a worker serves it again."""
        if place is None:
            self._line("connected", "a worker serves the session again", "dim")
        else:
            self.place(place)

    def connection(self, resumed: bool) -> None:
        text = "connected again" if resumed else "the connection broke; trying to connect again"
        self._line("connected" if resumed else "waiting", text, "dim" if resumed else "yellow")

    def prepared(self, prepared: Prepared) -> None:
        self._line("prepared", f"the prompt has {prepared.prompt_length} tokens", "dim")

    def question(self, name: str, question: SpokenQuestion) -> None:
        text = f"{name}, {question.duration_s:.1f} s, spoken in real time"
        self._line("you", text, "bold")

    def microphone(self) -> None:
        self._line("you", "speak; Ctrl-C hangs up", "bold")

    def unit(self, unit: Unit, latency: UnitLatency | None) -> None:
        if unit.user_text:  # before its answer, which may begin in the same unit
            self._line("you", f"“{visible_line(unit.user_text)}”", "")
        for line in self._units.add(unit, latency):
            self._print(line)
        if unit.interim_user_text:
            self._interim(visible_line(unit.interim_user_text))

    def error(self, error: ServerError) -> None:
        self._line("error", error.message, "red")

    def reply(self, result: ConversationResult, out: Path) -> None:
        seconds = len(result.said.audio) / OUTPUT_RATE
        where = f"({seconds:.1f} s of speech, saved in {out})"
        self._line("reply", f"“{result.said.text}” {where}", "bold")

    def summary(self, result: ConversationResult) -> None:
        if result.first_words_s:
            times = " and ".join(f"{seconds:.2f}" for seconds in result.first_words_s)
            self._line("answered", f"{times} s after the end of the question", "dim")
        for label, text in summary_lines(result.latencies):
            self._line(label, text, "dim")

    def recording(self, recording: str) -> None:
        self._line("recording", recording, "dim")

    def _line(self, label: str, text: str, style: str) -> None:
        for line in self._units.rest():
            self._print(line)
        self._print(Text(f"{label:>{_LABEL}}  ", style="dim").append(text, style=style))

    def _print(self, line: Text) -> None:
        if self._has_interim:
            self._console.control(Control((ControlType.ERASE_IN_LINE, 2)))
            self._has_interim = False
        self._console.print(line, soft_wrap=True)

    def _interim(self, text: str) -> None:
        """The end of the text, on one line, with the cursor at its begin. Only on terminals."""
        if not self._console.is_terminal:
            return
        room = max(1, self._console.width - _LABEL - 3)
        while cell_len(text) > room:
            text = f"…{text[2:]}"
        self._console.print(Text(f"{'you':>{_LABEL}}  {text}", style="dim"), end="")
        self._console.control(Control(ControlType.CARRIAGE_RETURN))
        self._has_interim = True


def wait_text(place: Queued) -> str:
    """How long the wait takes, or why that is not known."""
    if isinstance(place, QueueUpdate) and place.stale:
        return "the queue cannot be read now"
    if place.eta_seconds is None:
        return wait_reason_text(place.reason)
    return f"about {place.eta_seconds:.0f} s to go"


def unit_line(units: Sequence[tuple[Unit, UnitLatency | None]]) -> Text:
    """`4.0 s  speaking   85 ms  text`, or the same with `listening`. The time is the longest of the units."""
    unit = units[-1][0]
    clock = f"{unit.message.current_time / 1000:.1f} s"
    times = [latency.total for _, latency in units if latency]
    took = f"{max(times):.0f} ms" if times else "-"
    text = "".join(one.text for one, _ in units).strip()
    line = Text(f"{clock:>{_LABEL}}  ", style="dim")
    doing, style = ("listening", "blue") if unit.is_listen else ("speaking ", "bold green")
    line.append(doing, style=style).append(f"{took:>9}", style="dim")
    if not unit.is_listen:
        line.append(f"   {visible_line(text)}", style="green")
        if unit.end_of_turn:
            line.append("  (end of turn)", style="dim")
    if unit.message.simulated:
        line.append("  (simulated)", style="yellow")
    return line


def summary_lines(latencies: Sequence[UnitLatency]) -> list[tuple[str, str]]:
    """Labels and texts of a conversation's latencies; omits hops that the server did not report."""
    hops = (
        ("unit", "total", f"over {len(latencies)} units, from chunk sent to result"),
        ("of it", "engine", "engine"),
        ("", "to_worker", "pipeline, edge in → worker"),
        ("", "outward", "pipeline, worker → client out"),
    )
    spreads = ((label, hop_spread(latencies, hop), text) for label, hop, text in hops)
    return [(label, f"{spread} {text}") for label, spread, text in spreads if spread]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A conversation to hold: where, with what settings, and the file for the reply."""

    url: str
    out: Path
    prompt: str = DEFAULT_SYSTEM_PROMPT
    api_key: str | None = None
    config: DuplexConfig | None = None

    @asynccontextmanager
    async def prepared(
        self, printer: ConversationPrinter, patience_s: float
    ) -> AsyncIterator[DuplexSession]:
        """A session that has left the queue and is prepared.

        Raises NoAnswer if for `patience_s` no worker could take the session, and none was loading, or if the
        server does not prepare it.
        """
        options: ClientOptions = {"api_key": self.api_key, "resume": True, "transcript": True}
        async with connect_duplex(self.url, timing=True, **options) as session:
            session.watch_connection(printer.connection)
            printer.connected(without_password(self.url), session.session_id)
            await session.wait_for_turn(printer.place, no_worker_s=patience_s)
            async with in_background(_report_waits(session, printer)):
                async with prepared_within(patience_s):
                    prepared = await session.prepare(self.prompt, self.config)
                printer.prepared(prepared)
                yield session

    def finish(self, result: ConversationResult, printer: ConversationPrinter) -> None:
        """Save the reply and print the latencies."""
        if len(speech := result.said.audio):
            save_reply(self.out, speech)
            printer.reply(result, self.out)
        printer.summary(result)
        if result.recording:
            printer.recording(result.recording)


async def _report_waits(session: DuplexSession, printer: ConversationPrinter) -> None:
    async for place in session.waits():
        printer.wait(place)


async def ask_files(
    call: Call, paths: Sequence[Path], patience_s: float, printer: ConversationPrinter
) -> ConversationResult:
    """Speak recordings, each after the reply to the one before, and print the conversation.

    The replies are saved, also those of an interrupted conversation. Raises ClientError, UnusableAudio.
    """
    questions = [(path.name, SpokenQuestion(load_wav(path))) for path in paths]
    result = ConversationResult()
    try:
        async with call.prepared(printer, patience_s) as session:
            result.recording = session.recording_id
            for name, question in questions:
                printer.question(name, question)
                await ask(session, question, printer, patience_s, result)
                if not result.answered:
                    break
    finally:
        call.finish(result, printer)
    return result


async def talk_live(call: Call, patience_s: float, printer: ConversationPrinter) -> None:
    """Talk with microphone and speakers until interrupted, or until the user says goodbye.

    Raises ClientError, also if there is no worker for `patience_s`, and NoMicrophone.
    """
    result = ConversationResult()
    async with call.prepared(printer, patience_s) as session:
        result.recording = session.recording_id
        headset = Headset(session.chunk_s)
        try:
            with headset:
                printer.microphone()
                await _talk_and_listen(session, headset, result, printer)
        finally:
            call.finish(result, printer)


async def _talk_and_listen(
    session: DuplexSession,
    headset: Headset,
    result: ConversationResult,
    printer: ConversationPrinter,
) -> None:
    answer_ms, continues, leaves = 0.0, False, False
    async with in_background(speak(session, headset.chunks(), result.sent)):
        async for unit in listen(session, result, printer):
            if unit.interrupted:
                await session.playback_ack(max(0.0, answer_ms - headset.drop_unplayed()))
            headset.play(unit.audio)
            if not unit.is_listen:
                before_ms = answer_ms if continues else 0.0
                answer_ms = before_ms + len(unit.audio) * 1000 / OUTPUT_RATE
            continues = not unit.is_listen and not unit.end_of_turn
            if unit.is_listen and leaves and not headset.is_playing:
                return
            leaves = bool(unit.message.goodbye) or (leaves and unit.is_listen)
