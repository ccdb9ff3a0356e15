"""Full duplex on vLLM-Omni: what is sent, in which result its events are, and lost connections."""

import base64
import io
import time

import numpy as np
import pytest
import soundfile

from antiphon.inference_worker.engines.backend.processor import BackendProcessor
from antiphon.inference_worker.engines.backend.vllm_omni import duplex
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import (
    EngineBusy,
    EngineError,
    EngineLost,
    PastUnit,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from support.redis_server import wait_until
from support.vllm_omni_server import (
    MODEL,
    TONE,
    Message,
    OmniScriptedSession,
    ScriptedVllmOmni,
    begins,
    ends,
    error,
    listens,
    says,
)

from .conftest import Connect
from .test_backend_duplex import rest_of_turn, step, summary

CONFIG = DuplexConfig(force_listen_count=2, temperature=0.4)
SECOND = np.full(INPUT_RATE, 0.1, dtype=np.float32)
JPEG = b"\xff\xd8a frame"


def units(server: ScriptedVllmOmni, *replies: list[Message]) -> None:
    """The events of the first unit, the second, ...; later ones listen."""

    def script(_: OmniScriptedSession, unit: int) -> list[Message]:
        return replies[unit - 1] if unit <= len(replies) else listens()

    server.script = script


def open_view(engine: BackendProcessor, prompt: str = "") -> DuplexView:
    view = engine.set_duplex_mode()
    view.prepare(prompt, CONFIG)
    return view


def test_the_session_and_its_input_reach_the_server(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    view = connect(omni, slots=2).set_duplex_mode()
    view.prepare("Be kind.", CONFIG, tts_ref_audio=SECOND)
    view.prefill(SECOND, [b"\xff\xd8older", JPEG])
    view.generate()
    view.cleanup()
    [session] = omni.sessions
    settings = session.settings
    assert (settings["model"], settings["instructions"]) == (MODEL, "Be kind.")
    assert (settings["temperature"], settings["turn_detection"]) == (0.4, None)
    assert settings["extra_body"] == {"auto_response": True, "force_listen_count": 2}
    kind, _, data = settings["ref_audio"].partition(",")
    assert kind == "data:audio/wav;base64"
    voice, rate = soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="float32")
    assert (rate, len(voice)) == (INPUT_RATE, INPUT_RATE)
    [given] = session.inputs
    assert base64.b64decode(given["audio"]) == float_bytes(SECOND)
    assert [base64.b64decode(frame) for frame in given["video_frames"]] == [JPEG]
    assert given["force_listen"] is False
    assert session.commands[-1] == {"type": "session.close"}
    assert (omni.active, omni.faults) == (0, [])


def test_an_answer_is_a_turn_and_its_events_are_acknowledged(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    units(
        omni,
        listens(),
        [*begins("a"), *says("a", "One ")],
        [*says("a", "two."), *ends("a")],
        listens(),
    )
    view = open_view(connect(omni))
    assert step(view, SECOND).is_listen
    words, samples, last = summary(rest_of_turn(view, SECOND))
    assert (words, samples) == ("One two.", 2 * len(TONE))
    assert last[-1]
    assert not any(last[:-1])
    [session] = omni.sessions
    view.cleanup()
    assert 0 < session.acknowledged <= len(session.sent)


def test_an_answer_that_follows_at_once_is_another_turn(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    """Also if the events of both arrive together, as those of a slow server."""
    units(omni, [*begins("a"), *says("a", "One."), *ends("a"), *begins("b"), *says("b", "Two.")])
    view = open_view(connect(omni))
    first, second = step(view, SECOND), step(view, SECOND)
    assert (first.text, first.end_of_turn) == ("One.", True)
    assert (second.text, second.end_of_turn) == ("Two.", False)


def test_a_turn_that_says_nothing_for_a_unit_continues(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    short = SECOND[: INPUT_RATE // 5]
    units(omni, [*begins("a"), *says("a", "One ")], [*says("a", "two."), *ends("a")])
    view = open_view(connect(omni))
    assert step(view, SECOND).text == "One "
    silent = step(view, short)
    assert (silent.is_listen, silent.text, silent.end_of_turn) == (False, "", False)


def test_units_of_any_length_become_seconds(omni: ScriptedVllmOmni, connect: Connect) -> None:
    view = open_view(connect(omni))
    for _ in range(10):
        step(view, SECOND[: INPUT_RATE // 10])
    [session] = omni.sessions
    assert (session.units, len(session.inputs)) == (1, 10)


def test_forced_listening_cancels_the_answer(omni: ScriptedVllmOmni, connect: Connect) -> None:
    late = [{**event, "after_s": 0.0} for event in says("a", "late")]
    units(omni, [*begins("a"), *says("a", "One ")], [*late, *listens()], listens())
    view = open_view(connect(omni))
    assert step(view, SECOND).text == "One "
    forced = step(view, SECOND, force_listen=True)
    assert (forced.is_listen, forced.text, len(forced.audio)) == (True, "", 0)
    assert step(view, SECOND).is_listen
    [session] = omni.sessions
    cancel = {"type": "response.cancel", "response_id": "a"}
    assert cancel in session.commands
    assert [given["force_listen"] for given in session.inputs] == [False, True, False]


def test_sound_is_dropped_if_none_is_wanted(omni: ScriptedVllmOmni, connect: Connect) -> None:
    """It is asked for all the same: without, MiniCPM-o says nothing on vLLM-Omni."""
    units(omni, [*begins("a"), *says("a", "One."), *ends("a")])
    view = connect(omni).set_duplex_mode()
    view.prepare("", DuplexConfig(generate_audio=False))
    result = step(view, SECOND)
    assert (result.text, len(result.audio)) == ("One.", 0)
    assert omni.sessions[0].settings["modalities"] == ["audio", "text"]


def test_long_sound_is_spread_over_units(omni: ScriptedVllmOmni, connect: Connect) -> None:
    sound = np.full(3 * OUTPUT_RATE, 0.1, dtype=np.float32)
    units(omni, [*begins("a"), *says("a", "Long.", sound), *ends("a")])
    view = open_view(connect(omni))
    first, second = step(view, SECOND), step(view, SECOND)
    lengths = [len(first.audio), len(second.audio)]
    assert lengths == [2 * OUTPUT_RATE, OUTPUT_RATE]
    assert (first.end_of_turn, second.end_of_turn) == (False, True)


def test_playback_is_reported(omni: ScriptedVllmOmni, connect: Connect) -> None:
    units(omni, [*begins("a"), *says("a", "One ")])
    view = open_view(connect(omni))
    view.played(5.0)  # there was no answer yet
    step(view, SECOND)
    view.played(300.4)
    view.cleanup()
    reports = [one for one in omni.sessions[0].commands if one["type"] == "playback.ack"]
    assert [(one["response_id"], one["played_ms"]) for one in reports] == [("a", 300)]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (DuplexConfig(ls_mode="implicit"), "config.ls_mode"),
        (DuplexConfig(max_slice_nums=4), "config.max_slice_nums"),
    ],
)
def test_settings_that_have_no_effect_are_refused(
    omni: ScriptedVllmOmni, connect: Connect, config: DuplexConfig, field: str
) -> None:
    with pytest.raises(UnsupportedContent, match="vLLM-Omni") as refusal:
        connect(omni).set_duplex_mode().prepare("", config)
    assert refusal.value.field == field


def test_a_large_frame_is_made_small(omni: ScriptedVllmOmni, connect: Connect) -> None:
    from PIL import Image

    noise = np.random.default_rng(1).integers(0, 256, (1500, 2000, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG", quality=100)
    view = open_view(connect(omni))
    view.prefill(SECOND, [file.getvalue()])
    view.generate()
    [frame] = omni.sessions[0].inputs[0]["video_frames"]
    assert len(frame) <= 4_000_000 < len(file.getvalue()) * 4 / 3
    assert Image.open(io.BytesIO(base64.b64decode(frame))).size == (1280, 960)


def test_recovery_tells_what_was_said_and_sends_the_newest_sound(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    view = open_view(connect(omni), "Be kind.")
    view.replay(
        [
            PastUnit(audio=None, is_listen=False, text="Hello", end_of_turn=False),
            PastUnit(audio=None, is_listen=False, text=" there.", end_of_turn=True),
            PastUnit(audio=SECOND, is_listen=True, text="", end_of_turn=False),
        ]
    )
    [session] = omni.sessions
    said = "Be kind.\nEarlier in this conversation you said:\nHello there."
    assert session.settings["instructions"] == said
    assert [given["force_listen"] for given in session.inputs] == [True]
    assert omni.active == 1


def test_a_cut_connection_is_resumed_and_nothing_is_lost_or_repeated(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    units(
        omni,
        [*begins("a"), *says("a", "One ")],
        [*says("a", "two "), *says("a", "three."), *ends("a")],
    )
    view = open_view(connect(omni))
    assert step(view, SECOND).text == "One "
    for _ in range(2):
        omni.cut()
    words, samples, last = summary(rest_of_turn(view, SECOND))
    assert (words, samples, last[-1]) == ("two three.", 2 * len(TONE), True)
    omni.cut()
    assert step(view, SECOND).is_listen
    [session] = omni.sessions
    assert session.resumed >= 2
    assert omni.faults == []


def test_a_server_that_forgot_the_session_gives_it_back_to_the_queue(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    engine = connect(omni)
    view = open_view(engine)
    step(view, SECOND)
    omni.forget()
    with pytest.raises(EngineBusy, match=r"has lost the session .*resume_expired"):
        step(view, SECOND)
    view.cleanup()


def test_a_recovered_session_that_loses_its_server_at_once_ends(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    """It may be what the server cannot bear."""
    view = open_view(connect(omni))
    view.replay([PastUnit(audio=SECOND, is_listen=True, text="", end_of_turn=False)])
    omni.forget()
    with pytest.raises(EngineLost, match="please start a new conversation") as lost:
        step(view, SECOND)
    assert not isinstance(lost.value, EngineBusy)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "session.closed", "reason": "idle"}, "session.closed: idle"),
        ({"type": "session.expired", "reason": "ttl"}, "session.expired: ttl"),
        ({"type": "session.replaced"}, "session.replaced"),
    ],
)
def test_the_end_of_a_session_has_its_reason(
    omni: ScriptedVllmOmni, connect: Connect, event: Message, words: str
) -> None:
    units(omni, [event])
    with pytest.raises(EngineBusy, match=words):
        step(open_view(connect(omni)), SECOND)


def test_unknown_events_and_errors_are_named_and_end_nothing(
    omni: ScriptedVllmOmni, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    broken_sound = {**says("a", "")[0], "delta": "!"}
    other_rate = {**says("a", "")[0], "sample_rate_hz": 48000}
    units(
        omni,
        [{"type": "response.shrugs"}, {"type": "response.shrugs"}, *listens()],
        [error("input_backpressure", "Too much input"), *listens()],
        [{"type": "x", "raw": "{"}, {"type": "x", "raw": "[1]"}, *listens()],
        [*begins("a"), broken_sound, other_rate, *says("a", "One."), *ends("a")],
    )
    view = open_view(connect(omni))
    assert all(step(view, SECOND).is_listen for _ in range(3))
    assert step(view, SECOND).text == "One."
    log = capsys.readouterr().out
    assert log.count("response.shrugs") == 1
    assert "input_backpressure" in log
    assert log.count("backend_message_unreadable") == 4
    assert "48000 Hz" in log


def test_a_refused_session_has_the_servers_reason(omni: ScriptedVllmOmni, connect: Connect) -> None:
    engine = connect(omni)
    omni.refusal = error("ref_audio_required", "a voice is needed")
    with pytest.raises(EngineError, match="refuses the session: ref_audio_required: a voice is"):
        open_view(engine)
    assert engine.unusable_slots == 0


def test_a_silent_server_is_given_up(
    omni: ScriptedVllmOmni, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplex, "_MOST_OWED_S", 0.2)
    units(omni, [])
    view, part = open_view(connect(omni, stall_timeout_s=0.2)), SECOND[: INPUT_RATE // 5]
    step(view, part)
    with pytest.raises(EngineLost, match=r"has sent nothing for 0\.2 s"):
        step(view, part)


def test_a_pause_in_an_answer_stops_no_input(
    omni: ScriptedVllmOmni, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says nothing about a unit in which it listens while it answers."""
    monkeypatch.setattr(duplex, "_MOST_OWED_S", 0.2)
    units(omni, [*begins("a"), *says("a", "One ")])
    view, part = open_view(connect(omni)), SECOND[: INPUT_RATE // 5]
    assert step(view, SECOND).text == "One "
    for _ in range(3):
        assert not step(view, part).is_listen
    assert len(omni.sessions[0].inputs) == 4


def test_a_pause_of_the_client_in_an_answer_is_no_silence_of_the_server(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    """Also after a unit about which the server says nothing."""
    units(omni, [*begins("a"), *says("a", "One ")])
    view, part = open_view(connect(omni, stall_timeout_s=0.5)), SECOND[: INPUT_RATE // 5]
    assert step(view, SECOND).text == "One "
    for _ in range(2):
        time.sleep(0.6)
        result = step(view, part)
        assert (result.is_listen, result.text, result.end_of_turn) == (False, "", False)


def test_what_arrives_in_a_pause_of_the_client_is_read_first(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    late = {"type": "response.speak", "after_s": 0.5}
    units(omni, [*begins("a"), *says("a", "One "), late, *says("a", "two."), *ends("a")])
    view, part = open_view(connect(omni, stall_timeout_s=0.1)), SECOND[: INPUT_RATE // 5]
    results = [step(view, SECOND), step(view, part)]
    [session] = omni.sessions
    wait_until(lambda: session.sent[-1]["type"] == "response.done", within_s=60)
    time.sleep(0.3)
    words, _, last = summary([*results, step(view, part)])
    assert (words, last.count(True)) == ("One two.", 1)


def test_a_server_that_stops_in_an_answer_is_given_up(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    units(omni, [*begins("a"), *says("a", "One ")])
    view, part = open_view(connect(omni, stall_timeout_s=0.1)), SECOND[: INPUT_RATE // 5]
    assert step(view, SECOND).text == "One "
    step(view, part)
    with pytest.raises(EngineLost, match=r"has sent nothing for 0\.1 s"):
        step(view, part)
