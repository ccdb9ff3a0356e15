"""How each kind of case runs in a call: who speaks when, and how long the model is watched."""

from collections.abc import Awaitable, Callable

from antiphon.cli.evaluate.call import ConnectedCall
from antiphon.cli.evaluate.metrics import ANSWER_S, PATIENCE_S
from antiphon.cli.evaluate.plan import Script
from antiphon.cli.evaluate.tracks import Aside, Case, Kind, Span, UserTurn

_LEAD_S = 0.3
"""Between the decision to speak and the first sound."""

_ANSWER_PLAYED_S = 2.0
"""So much of an answer is enough to see what it is."""

_WATCH_S = 8.0
"""After a sound within an answer, which continues for this time or to its end."""

_REST_S = 3.0
"""A call whose answer takes longer ends: another call has the next case."""

_OPENED_S = 12.0
_OPENER_PATIENCE_S = 20.0
"""An answer that comes so late counts as none, but something can happen in it."""

_HALF_DUPLEX_WATCH_S = 5.0
_NOISE_LEAD_S = 1.0


class Spent(Exception):
    """The call cannot be used for another case: the model does not fall silent."""


class Stage:
    """The notes of one case while it runs; `case` cuts the tracks."""

    def __init__(self, call: ConnectedCall, script: Script) -> None:
        self.call = call
        self.script = script
        self.begin = call.now
        self._turns: list[UserTurn] = []
        self._aside: Aside | None = None

    def turn(self, kind: Kind, span: Span, pause: Span | None = None) -> Span:
        self.call.user_spoke = True
        self._turns.append(UserTurn(kind=kind, span=span, pause=pause))
        return span

    def aside(self, span: Span) -> Span:
        self._aside = Aside(kind=self.script.kind, span=span)
        return span

    def speak(self, kind: Kind, earliest: float | None = None) -> Span:
        """Say the sound of the script as a turn, at its phase of the grid."""
        at = self.call.place(earliest or self.call.now + _LEAD_S, self.script.phase)
        return self.turn(kind, self.call.say(self.script.sound, at))

    async def asked(self) -> float | None:
        """Ask the opener; returns when the answer begins to play."""
        at = self.call.now + _LEAD_S
        said = self.turn(Kind.QUESTION, self.call.say(self.script.opener, at))
        await self.call.until(said.end)
        return await self.call.first_sound(said.end, _OPENER_PATIENCE_S)

    async def answer(self, said: Span, played_s: float = _ANSWER_PLAYED_S) -> None:
        """Wait for an answer, and for enough of it."""
        await self.call.until(said.end)
        if (begin := await self.call.first_sound(said.end, PATIENCE_S)) is not None:
            await self.call.until(begin + played_s)

    def case(self, end: float | None = None) -> Case:
        begin, end = self.begin, end or self.call.now
        return Case(
            kind=self.script.kind,
            text=self.script.text,
            voice=self.script.voice,
            user=self.call.user_track(begin, end),
            model=self.call.playback.track(begin, end),
            turns=tuple(_moved(turn, begin) for turn in self._turns),
            aside=self._aside
            and Aside(kind=self._aside.kind, span=self._aside.span.shifted(-begin)),
            answers=self.call.playback.turns(begin, end),
        )


def _moved(turn: UserTurn, begin: float) -> UserTurn:
    pause = turn.pause.shifted(-begin) if turn.pause else None
    return UserTurn(kind=turn.kind, span=turn.span.shifted(-begin), pause=pause)


async def run(call: ConnectedCall, script: Script) -> Case:
    """Try one case. The model is silent before. Raises Spent."""
    if not await call.quiet(_REST_S):
        raise Spent
    stage = Stage(call, script)
    return await _RUNS[script.kind](stage)


async def _question(stage: Stage) -> Case:
    await stage.answer(stage.speak(Kind.QUESTION))
    return stage.case()


async def _paused(stage: Stage) -> Case:
    call, script = stage.call, stage.script
    first = call.say(script.sound, call.place(call.now + _LEAD_S, script.phase))
    rest = call.say(script.rest, first.end + script.pause_s)
    said = Span(first.begin, rest.end)
    stage.turn(Kind.PAUSE, said, Span(first.end, rest.begin))
    await stage.answer(said)
    return stage.case()


async def _in_noise(stage: Stage) -> Case:
    call = stage.call
    call.make_noise(stage.script.noise)
    await stage.answer(stage.speak(stage.script.kind, call.now + _NOISE_LEAD_S))
    call.hush()
    return stage.case()


async def _interruption(stage: Stage) -> Case:
    begin = await stage.asked()
    if begin is not None:
        said = stage.speak(Kind.INTERRUPTION, begin + stage.script.delay_s)
        await stage.call.until(said.end)
        await _next_answer(stage.call, said.end)
    return stage.case()


async def _next_answer(call: ConnectedCall, after: float) -> None:
    """Wait for enough of the first turn that begins then."""
    while not (begun := [t for t in call.playback.turns(0.0, call.now) if t.span.begin >= after]):
        if call.now > after + PATIENCE_S:
            return
        await call.until(call.now + 0.1)
    await call.until(begun[0].span.begin + _ANSWER_PLAYED_S)


async def _within_an_answer(stage: Stage) -> Case:
    call, script = stage.call, stage.script
    begin = await stage.asked()
    if begin is not None:
        at = call.place(begin + script.delay_s, script.phase)
        said = stage.aside(call.say(script.sound, at))
        await call.until(said.end)
        await call.quiet(_WATCH_S)
    return stage.case()


async def _in_silence(stage: Stage) -> Case:
    call, script = stage.call, stage.script
    if not call.user_spoke and await stage.asked() is not None:
        await call.quiet(_OPENED_S)
    said = stage.aside(call.say(script.sound, call.place(call.now + _LEAD_S, script.phase)))
    await call.until(said.end + ANSWER_S + 0.5)
    return stage.case()


async def _silence(stage: Stage) -> Case:
    await stage.call.until(stage.begin + stage.script.pause_s)
    return stage.case()


async def _half_duplex(stage: Stage) -> Case:
    """The client plays what it has and need not drop, however long that takes."""
    call, script = stage.call, stage.script
    begin = await stage.asked()
    if begin is None:
        return stage.case()
    said = stage.turn(Kind.HALF_DUPLEX, call.say(script.sound, begin + script.delay_s))
    await call.until(said.end)
    await call.quiet(_HALF_DUPLEX_WATCH_S)
    return stage.case(max(call.now, call.playback.ends_at))


_RUNS: dict[Kind, Callable[[Stage], Awaitable[Case]]] = {
    Kind.QUESTION: _question,
    Kind.PAUSE: _paused,
    Kind.INTERRUPTION: _interruption,
    Kind.BACKCHANNEL: _within_an_answer,
    Kind.SOUND: _within_an_answer,
    Kind.SOUND_IN_SILENCE: _in_silence,
    Kind.ASIDE: _within_an_answer,
    Kind.ASIDE_IN_SILENCE: _in_silence,
    Kind.WHITE_NOISE: _in_noise,
    Kind.PINK_NOISE: _in_noise,
    Kind.BABBLE: _in_noise,
    Kind.SILENCE: _silence,
    Kind.HALF_DUPLEX: _half_duplex,
}
