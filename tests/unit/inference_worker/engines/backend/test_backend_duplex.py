"""Full duplex: what is sent to a server, and in which result its events are."""

import base64

import numpy as np
import pytest

from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import EngineError, PastUnit, UnsupportedContent
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult
from support.backend_server import (
    TONE,
    Event,
    ScriptedBackend,
    ScriptedSession,
    counted,
    done,
    listen,
    sound,
    text,
)

from .conftest import Connect

CONFIG = DuplexConfig(force_listen_count=0)
SHORT = np.full(INPUT_RATE // 5, 0.1, dtype=np.float32)
"""A unit that waits for its server, or for sound, for a moment only."""
LONG = np.full(INPUT_RATE * 30, 0.1, dtype=np.float32)
"""A unit that waits until its server answers. No test waits until its end."""


def samples(encoded: str) -> Samples:
    return np.frombuffer(base64.b64decode(encoded), dtype="<f4")


def replies(server: ScriptedBackend, *units: list[Event]) -> None:
    """The events after the first input, the second, ...; later ones listen."""

    def script(session: ScriptedSession, _: Event) -> list[Event]:
        return units[session.count - 1] if session.count <= len(units) else [listen()]

    server.script = script


def step(view: DuplexView, audio: Samples = LONG, *, force_listen: bool = False) -> UnitResult:
    view.prefill(audio)
    result = view.generate(force_listen)
    view.finalize()
    return result


def rest_of_turn(view: DuplexView, audio: Samples = LONG) -> list[UnitResult]:
    """The results until one listens. How the server's events are spread over them depends on time."""
    results = []
    while len(results) < 50 and not (result := step(view, audio)).is_listen:
        results.append(result)
    return results


def summary(results: list[UnitResult]) -> tuple[str, int, list[bool]]:
    """Text, samples, and where the turn ends."""
    words = "".join(result.text for result in results)
    ends = [result.end_of_turn for result in results]
    return words, sum(len(result.audio) for result in results), ends


def test_the_session_and_its_input_reach_the_demo(demo: ScriptedBackend, connect: Connect) -> None:
    view = connect(demo).set_duplex_mode()
    view.prepare("Be kind.", CONFIG, ref_audio=SHORT, tts_ref_audio=SHORT * 2)
    view.prefill(LONG, [b"\xff\xd8one", b"\xff\xd8two"], 4)
    view.generate()
    view.cleanup()
    [session] = demo.sessions
    init, [given] = session.init, session.inputs
    assert (init["mode"], init["system_prompt"]) == ("full_duplex", "Be kind.")
    assert np.array_equal(samples(init["voice"]["ref_audio"]), SHORT)
    assert np.array_equal(samples(init["voice"]["tts_ref_audio"]), SHORT * 2)
    assert init["config"]["force_listen_count"] == 0
    assert "record" not in init["config"]
    assert np.array_equal(samples(given["audio"]), LONG)
    frames = [base64.b64decode(frame) for frame in given["video_frames"]]
    assert frames == [b"\xff\xd8one", b"\xff\xd8two"]
    assert (given["max_slice_nums"], given["force_listen"]) == (4, False)
    assert demo.closed == [session.id]


def test_llama_gets_its_prompt_template_and_the_newest_frame(
    llama: ScriptedBackend, connect: Connect
) -> None:
    view = connect(llama).set_duplex_mode()
    view.prepare("Be kind.", CONFIG)
    view.prefill(LONG, [b"\xff\xd8one", b"\xff\xd8two"])
    view.generate()
    [session] = llama.sessions
    assert session.init["system_prompt"] == "<|audio_end|>Be kind.<|im_end|>\n"
    assert [base64.b64decode(frame) for frame in session.inputs[0]["video_frames"]] == [
        b"\xff\xd8two"
    ]


def test_a_later_session_does_not_inherit_the_prompt_and_settings(
    llama: ScriptedBackend, connect: Connect
) -> None:
    engine = connect(llama)
    for prompt, config in (("Secret.", CONFIG), ("", DuplexConfig(temperature=0.1))):
        view = engine.set_duplex_mode()
        view.prepare(prompt, config)
        view.cleanup()
    first, second = (session.init for session in llama.sessions)
    assert second["system_prompt"] == "<|audio_end|><|im_end|>\n"
    assert second["config"].keys() == first["config"].keys()
    assert llama.closed == [session.id for session in llama.sessions]
    assert llama.faults == []


def test_llama_has_no_implicit_mode(llama: ScriptedBackend, connect: Connect) -> None:
    view = connect(llama).set_duplex_mode()
    with pytest.raises(UnsupportedContent, match="only the mode 'explicit'") as refusal:
        view.prepare("", DuplexConfig(ls_mode="implicit"))
    assert refusal.value.field == "config.ls_mode"
    assert view.prepare("", CONFIG) > 0


def test_a_turn_of_the_demo(demo: ScriptedBackend, connect: Connect) -> None:
    replies(demo, [text("Hel"), sound()], [text("lo"), sound(), listen()])
    view = connect(demo).set_duplex_mode()
    view.prepare("", CONFIG)
    words, samples, ends = summary(rest_of_turn(view))
    assert (words, samples) == ("Hello", 2 * len(TONE))
    assert ends == [*[False] * (len(ends) - 1), True]


def test_late_sound_of_llama_is_in_a_later_unit(llama: ScriptedBackend, connect: Connect) -> None:
    """`response.done` is no end of the turn, and sound follows even the `listen` that is."""
    replies(llama, [text("Hello"), done("Hello")], [listen(), sound()])
    view = connect(llama).set_duplex_mode()
    view.prepare("", CONFIG)
    results = [step(view, SHORT), step(view, LONG), *rest_of_turn(view, SHORT)]
    words, samples, ends = summary(results)
    assert (words, samples) == ("Hello", len(TONE))
    assert ends == [*[False] * (len(ends) - 1), True]


def test_sound_of_an_interrupted_turn_is_dropped(llama: ScriptedBackend, connect: Connect) -> None:
    replies(
        llama,
        [text("Hello"), sound(), done("Hello")],
        [listen()],
        [sound(), listen()],
        [text("Yes"), sound(), done("Yes")],
    )
    view = connect(llama).set_duplex_mode()
    view.prepare("", CONFIG)
    assert step(view).text == "Hello"
    assert step(view, force_listen=True).is_listen
    assert step(view).is_listen
    assert [given["force_listen"] for given in llama.sessions[0].inputs] == [False, True, False]
    answer = step(view)
    assert (answer.text, len(answer.audio)) == ("Yes", len(TONE))


def test_an_unspoken_answer_drops_the_sound(llama: ScriptedBackend, connect: Connect) -> None:
    replies(llama, [text("Hello"), sound(), done("Hello")])
    view = connect(llama).set_duplex_mode()
    view.prepare("", CONFIG.model_copy(update={"generate_audio": False}))
    result = step(view)
    assert (result.text, len(result.audio)) == ("Hello", 0)


def test_a_silent_unit_listens(llama: ScriptedBackend, connect: Connect) -> None:
    """`llama-omni-server` sends nothing for a unit in which the turn has ended without text."""
    replies(llama, [], [])
    view = connect(llama).set_duplex_mode()
    view.prepare("", CONFIG)
    assert step(view, SHORT).is_listen
    assert step(view, SHORT).is_listen


def test_a_burst_of_sound_is_spread_over_units(demo: ScriptedBackend, connect: Connect) -> None:
    burst = np.ones(3 * OUTPUT_RATE, dtype=np.float32)
    replies(demo, [text("Long"), sound(burst), listen()])
    view = connect(demo).set_duplex_mode()
    view.prepare("", CONFIG)
    results = rest_of_turn(view)
    words, samples, ends = summary(results)
    assert (words, samples) == ("Long", len(burst))
    assert max(len(result.audio) for result in results) == 2 * OUTPUT_RATE
    assert ends == [*[False] * (len(ends) - 1), True]


def test_recovery_tells_what_was_said_and_sends_the_newest_sound(
    demo: ScriptedBackend, connect: Connect
) -> None:
    view = connect(demo).set_duplex_mode()
    view.prepare("Be kind.", CONFIG)
    said = PastUnit(audio=None, is_listen=False, text="I am here.", end_of_turn=True)
    heard = PastUnit(audio=LONG, is_listen=True, text="", end_of_turn=False)
    view.replay([said, heard])
    session = demo.sessions[-1]
    assert session.init["system_prompt"].startswith("Be kind.\n")
    assert session.init["system_prompt"].endswith("I am here.")
    assert [given["force_listen"] for given in session.inputs] == [True]
    assert demo.faults == []


def test_a_unit_without_sound_is_refused(demo: ScriptedBackend, connect: Connect) -> None:
    view = connect(demo).set_duplex_mode()
    view.prepare("", CONFIG)
    with pytest.raises(EngineError, match="without sound"):
        view.prefill(SHORT[:0], [b"\xff\xd8"])


def test_the_counts_of_the_server_are_passed_on(demo: ScriptedBackend, connect: Connect) -> None:
    """Each server event with a count adds to it; a server that counts nothing has none."""
    view = connect(demo).set_duplex_mode()
    view.prepare("Be kind.", CONFIG)
    assert view.take_usage() is None
    spoken = counted(text("Yes."), input_audio=25, input_video=64, output_text=2)
    replies(demo, [counted(listen(), input_audio=25)], [spoken, sound(), listen()])
    step(view)
    assert view.take_usage() == TokenUsage(input_audio=25)
    rest_of_turn(view)
    used = TokenUsage(input_audio=25, input_vision=64, output_text=2)
    assert view.take_usage() == used
    assert view.take_usage() == TokenUsage()
    view.cleanup()
