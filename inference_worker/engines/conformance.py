"""Tests that every engine passes. A test module runs them on one engine:

    @pytest.fixture(scope="module")
    def engine() -> Iterator[UnifiedProcessor]:
        engine = build_processor("my-engine", slots=EngineConformance.slots)
        engine.load(print)
        yield engine
        engine.close()

    class TestMyEngine(EngineConformance):
        pass

A test of a kind that the engine does not serve is skipped. The module imports no test library.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar
from unittest import SkipTest

import numpy as np

from antiphon.inference_worker.engines.processor import (
    DuplexView,
    HalfDuplexView,
    SessionView,
    UnifiedProcessor,
)
from antiphon.inference_worker.engines.types import Delta, EngineError, PastTurn, PastUnit
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.entries import ResultOut, TextKind, check_readable
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import UnitResult

ViewT = TypeVar("ViewT", bound=SessionView)

_PATIENCE_S = 60.0
_MAX_UNITS = 40
_QUIET: Samples = np.zeros(INPUT_RATE, dtype=np.float32)
_DUPLEX = (SessionKind.AUDIO_DUPLEX, SessionKind.OMNI_DUPLEX)


class EngineConformance:
    """The contract of `UnifiedProcessor` and its views. Override what does not fit the engine."""

    slots = 2
    """Sessions that the engine under test has room for."""
    units = 4
    exact_recovery = True
    """False if `kv_cache_length` is that of before only after the next answer, not after `replay`."""
    prompt = "You are a helpful assistant."
    greeting = "Hello and welcome. How can I help you this morning?"
    duplex_config = DuplexConfig(force_listen_count=0)
    half_duplex_config = HalfDuplexConfig()
    chat_options = ChatOptions()

    def sound(self, second: int) -> Samples:
        """The user's audio of one second (float32 mono 16 kHz). By default a quiet tone."""
        time_s = second + np.arange(INPUT_RATE, dtype=np.float32) / INPUT_RATE
        return (0.05 * np.sin(2 * np.pi * 300 * time_s)).astype(np.float32)

    def test_info(self, engine: UnifiedProcessor) -> None:
        info = engine.info
        assert info.name
        assert info.model
        assert info.kinds
        assert info.context_tokens > 0
        assert info.replayed_audio >= 0

    def test_memory(self, engine: UnifiedProcessor) -> None:
        memory = engine.memory()
        assert 0 < memory.used <= memory.total

    def test_every_slot_can_be_used_again(self, engine: UnifiedProcessor) -> None:
        for _ in range(2):
            views = [_open_any(engine) for _ in range(self.slots)]
            for view in views:
                view.cleanup()

    def test_stop_is_safe_at_any_time(self, engine: UnifiedProcessor) -> None:
        view = _open_any(engine)
        view.stop()
        view.stop()
        view.cleanup()

    def test_duplex_units(self, engine: UnifiedProcessor) -> None:
        with self._duplex(engine) as view:
            for second in range(self.units):
                self._check_unit(self._unit(view, self.sound(second)))
                assert 0 <= view.kv_cache_length <= engine.info.context_tokens
            _check_usage(view)

    def test_duplex_prepare_may_be_repeated(self, engine: UnifiedProcessor) -> None:
        with self._duplex(engine) as view:
            assert view.prepare(self.prompt, self.duplex_config) >= 0
            self._check_unit(self._unit(view, self.sound(0)))

    def test_duplex_forced_listening(self, engine: UnifiedProcessor) -> None:
        with self._duplex(engine) as view:
            for second in range(self.units):
                assert self._unit(view, self.sound(second), force_listen=True).is_listen
            self._check_unit(self._unit(view, self.sound(0)))
            assert self._unit(view, self.sound(1), force_listen=True).is_listen

    def test_duplex_reports_of_playback(self, engine: UnifiedProcessor) -> None:
        with self._duplex(engine) as view:
            view.played(0.0)
            for second in range(self.units):
                self._unit(view, self.sound(second))
                view.played(100.0 * second)

    def test_duplex_greeting(self, engine: UnifiedProcessor) -> None:
        """It is the first turn. A second view continues it, and a third one does not repeat it."""
        with self._greeted(engine) as view:
            results = self._speak(view)
        past = [self._past(engine, result, _QUIET) for result in results]
        with self._greeted(engine) as view:
            view.replay(past)
            while not results[-1].end_of_turn:
                results += self._speak(view)
        with self._greeted(engine) as view:
            view.replay([self._past(engine, result, _QUIET) for result in results])
            assert not self.greeting.startswith(self._unit(view, _QUIET).text or "nothing")
        assert "".join(result.text for result in results).split() == self.greeting.split()

    def test_duplex_forced_listening_ends_the_greeting(self, engine: UnifiedProcessor) -> None:
        with self._greeted(engine) as view:
            said = self._speak(view)
            said.append(self._unit(view, _QUIET, force_listen=True))
            said += [self._unit(view, _QUIET) for _ in range(self.units)]
            assert self.greeting.split()[-1] not in "".join(result.text for result in said)

    def test_duplex_texts(self, engine: UnifiedProcessor) -> None:
        """A commentary is said, also by a second view that takes over before or while it is said."""
        if not engine.info.takes_texts:
            raise SkipTest(f"{engine.info.name} takes no texts")
        history = [(TextKind.USER, "Hello."), (TextKind.ASSISTANT, "Hi.")]
        results: list[UnitResult] = []
        while not (results and results[-1].end_of_turn):
            with self._duplex(engine) as view:
                view.add_history(history)
                view.replay([self._past(engine, result, _QUIET) for result in results])
                if not results:
                    view.add_text(TextKind.THINKING, "It rains.")
                    view.add_text(TextKind.COMMENTARY, self.greeting)
                results.append(self._unit(view, _QUIET))
                if len(results) > 2 and not results[-1].end_of_turn:
                    results += self._speak(view)
            assert len(results) < _MAX_UNITS, "it does not say the commentary"
        assert "".join(result.text for result in results).split() == self.greeting.split()

    def test_duplex_stop_ends_a_unit(self, engine: UnifiedProcessor) -> None:
        with self._duplex(engine) as view:
            _ends_after_stop(view, lambda: self._unit(view, self.sound(0)))

    def test_duplex_recovery(self, engine: UnifiedProcessor) -> None:
        """A second view has the same context after `replay`, and continues."""
        with self._duplex(engine) as view:
            past = [
                self._past(engine, self._unit(view, self.sound(n)), self.sound(n))
                for n in range(self.units)
            ]
            length = view.kv_cache_length
        with self._duplex(engine) as view:
            view.replay(past)
            self._check_length(engine, view.kv_cache_length, length)
            self._check_unit(self._unit(view, self.sound(self.units)))

    def test_half_duplex_turns(self, engine: UnifiedProcessor) -> None:
        with self._half_duplex(engine) as view:
            for turn in range(2):
                view.prefill(self.sound(turn))
                _check_answer(view.generate())
                _check_json(view.memo())
                assert 0 <= view.kv_cache_length <= engine.info.context_tokens
            _check_usage(view)

    def test_half_duplex_rollback(self, engine: UnifiedProcessor) -> None:
        with self._half_duplex(engine) as view:
            before = view.kv_cache_length
            view.prefill(self.sound(0))
            list(view.generate())
            view.rollback()
            assert view.kv_cache_length == before

    def test_half_duplex_break(self, engine: UnifiedProcessor) -> None:
        with self._half_duplex(engine) as view:
            view.prefill(self.sound(0))
            answer = view.generate()
            next(answer, None)
            view.set_break()
            _check_answer(answer)
            view.prefill(self.sound(1))
            _check_answer(view.generate())

    def test_half_duplex_stop_ends_an_answer(self, engine: UnifiedProcessor) -> None:
        with self._half_duplex(engine) as view:
            view.prefill(self.sound(0))
            _ends_after_stop(view, lambda: list(view.generate()))

    def test_half_duplex_greeting(self, engine: UnifiedProcessor) -> None:
        """It is the first turn. A second view continues it, and a third one remembers it."""
        with self._greeted_turns(engine) as view:
            whole = list(view.greet(""))
            _check_answer(iter(whole))
            turn = PastTurn(audio=None, text=_text(whole), memo=_check_json(view.memo()))
            length = view.kv_cache_length
            view.prefill(self.sound(0))
            _check_answer(view.generate())
        assert turn.text == self.greeting
        said = whole[0].text
        with self._greeted_turns(engine) as view:
            assert said + _text(view.greet(said)) == self.greeting
        with self._greeted_turns(engine) as view:
            view.replay([turn])
            self._check_length(engine, view.kv_cache_length, length)
            view.prefill(self.sound(0))
            _check_answer(view.generate())

    def test_half_duplex_break_ends_the_greeting(self, engine: UnifiedProcessor) -> None:
        with self._greeted_turns(engine) as view:
            greeting = view.greet("")
            said = next(greeting).text
            view.set_break()
            said += _text(greeting)
            assert len(said) < len(self.greeting)
            view.prefill(self.sound(0))
            _check_answer(view.generate())

    def test_half_duplex_rollback_of_the_greeting(self, engine: UnifiedProcessor) -> None:
        with self._greeted_turns(engine) as view:
            before = view.kv_cache_length
            list(view.greet(""))
            view.rollback()
            assert view.kv_cache_length == before

    def test_half_duplex_recovery(self, engine: UnifiedProcessor) -> None:
        with self._half_duplex(engine) as view:
            view.prefill(self.sound(0))
            text = "".join(delta.text for delta in view.generate())
            turn = PastTurn(
                audio=self._replayed(engine, self.sound(0)),
                text=text,
                memo=_check_json(view.memo()),
            )
            length = view.kv_cache_length
        with self._half_duplex(engine) as view:
            view.replay([turn])
            self._check_length(engine, view.kv_cache_length, length)
            view.prefill(self.sound(1))
            _check_answer(view.generate())

    def test_chat(self, engine: UnifiedProcessor) -> None:
        with self._chat(engine) as view:
            shares: list[float] = []
            assert view.prefill(self._history(), self.chat_options, on_progress=shares.append) >= 0
            assert all(0 <= share <= 1 for share in shares)
            assert shares == sorted(shares)
            _check_answer(view.generate())
            _check_usage(view)

    def test_chat_stop_ends_an_answer(self, engine: UnifiedProcessor) -> None:
        with self._chat(engine) as view:
            view.prefill(self._history(), self.chat_options)
            _ends_after_stop(view, lambda: list(view.generate()))

    def test_chat_answers_are_resumed_without_repetition(self, engine: UnifiedProcessor) -> None:
        """`resume` may be refused with None; otherwise every piece of it is new."""
        with self._chat(engine) as view:
            view.prefill(self._history(), self.chat_options)
            rest = view.resume("")
            if rest is not None:
                _check_answer(rest)

    @contextmanager
    def _duplex(
        self, engine: UnifiedProcessor, config: DuplexConfig | None = None
    ) -> Iterator[DuplexView]:
        with _session(engine, _DUPLEX, engine.set_duplex_mode) as view:
            assert view.prepare(self.prompt, config or self.duplex_config) >= 0
            yield view

    def _greeted(self, engine: UnifiedProcessor) -> AbstractContextManager[DuplexView]:
        _needs_greetings(engine)
        greeting = {"greeting": self.greeting, "force_listen_count": 3}
        return self._duplex(engine, self.duplex_config.model_copy(update=greeting))

    def _speak(self, view: DuplexView) -> list[UnitResult]:
        """Units up to the first that speaks; a slow engine listens before."""
        results = [self._unit(view, _QUIET)]
        while results[-1].is_listen:
            assert len(results) < _MAX_UNITS, "it does not speak"
            results.append(self._unit(view, _QUIET))
        return results

    @contextmanager
    def _half_duplex(
        self, engine: UnifiedProcessor, config: HalfDuplexConfig | None = None
    ) -> Iterator[HalfDuplexView]:
        kinds = (SessionKind.HALF_DUPLEX,)
        with _session(engine, kinds, engine.set_half_duplex_mode) as view:
            system = ConversationMessage(role=Role.SYSTEM, parts=(TextPart(self.prompt),))
            assert view.prepare(system, config or self.half_duplex_config) >= 0
            yield view

    def _greeted_turns(self, engine: UnifiedProcessor) -> AbstractContextManager[HalfDuplexView]:
        _needs_greetings(engine)
        greeting = {"greeting": self.greeting}
        return self._half_duplex(engine, self.half_duplex_config.model_copy(update=greeting))

    def _chat(self, engine: UnifiedProcessor) -> Any:
        return _session(engine, (SessionKind.CHAT,), engine.set_chat_mode)

    def _history(self) -> list[ConversationMessage]:
        return [ConversationMessage(role=Role.USER, parts=(TextPart("Who are you?"),))]

    def _unit(self, view: DuplexView, sound: Samples, *, force_listen: bool = False) -> UnitResult:
        assert view.prefill(sound).cost_ms >= 0
        result = view.generate(force_listen)
        view.finalize()
        return result

    def _check_length(self, engine: UnifiedProcessor, found: int, before: int) -> None:
        assert 0 <= found <= engine.info.context_tokens
        if self.exact_recovery:
            assert found == before

    def _check_unit(self, result: UnitResult) -> None:
        _check_audio(result.audio)
        _check_json(result.memo)
        _check_figures(result)
        assert len(result.audio) <= 2 * OUTPUT_RATE
        if result.is_listen:
            assert (result.text, len(result.audio)) == ("", 0)

    def _past(self, engine: UnifiedProcessor, result: UnitResult, sound: Samples) -> PastUnit:
        return PastUnit(
            audio=self._replayed(engine, sound),
            is_listen=result.is_listen,
            text=result.text,
            end_of_turn=result.end_of_turn,
            memo=_check_json(result.memo),
        )

    def _replayed(self, engine: UnifiedProcessor, sound: Samples) -> Samples | None:
        """The audio that recovery provides: none if the engine does not ask for it."""
        return sound if engine.info.replayed_audio else None


@contextmanager
def _session(
    engine: UnifiedProcessor, kinds: tuple[SessionKind, ...], view: Callable[[], ViewT]
) -> Iterator[ViewT]:
    if not engine.info.kinds.intersection(kinds):
        raise SkipTest(f"{engine.info.name} does not serve {' or '.join(kinds)}")
    session = view()
    try:
        yield session
    finally:
        session.cleanup()


def _open_any(engine: UnifiedProcessor) -> SessionView:
    if engine.info.kinds.intersection(_DUPLEX):
        return engine.set_duplex_mode()
    if SessionKind.HALF_DUPLEX in engine.info.kinds:
        return engine.set_half_duplex_mode()
    return engine.set_chat_mode()


def _needs_greetings(engine: UnifiedProcessor) -> None:
    if not engine.info.greets:
        raise SkipTest(f"{engine.info.name} does not greet")


def _text(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def _check_usage(view: SessionView) -> None:
    """An engine that counts tokens has counted some."""
    usage = view.take_usage() if view.take_usage else None
    assert usage is None or usage.input_text + usage.input_audio > 0


def _check_answer(answer: Iterator[Delta]) -> None:
    for delta in answer:
        assert delta.n_tokens >= 0
        _check_audio(delta.audio)


def _check_audio(audio: Samples) -> None:
    assert audio.dtype == np.float32
    assert audio.ndim == 1
    assert np.isfinite(audio).all()


def _check_json(memo: dict[str, Any]) -> dict[str, Any]:
    """The memo as another worker reads it."""
    read: dict[str, Any] = json.loads(json.dumps(memo))
    return read


def _check_figures(result: UnitResult) -> None:
    """Raises UnreadableEntry, as a worker does, for a figure of another type than declared."""
    times = dict.fromkeys(("received_at", "read_at", "prefill_ms", "wall_clock_ms"), 0.0)
    check_readable(ResultOut.of(result, input_n=1, **times))


def _ends_after_stop(view: SessionView, step: Callable[[], object]) -> None:
    """A stopped step ends, with a result or an EngineError."""
    ended = threading.Event()

    def run() -> None:
        with suppress(EngineError):
            step()
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    view.stop()
    assert ended.wait(_PATIENCE_S), "the step continues after stop()"
    thread.join()
