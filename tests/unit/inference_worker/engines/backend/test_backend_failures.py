"""Servers that are away, die, refuse or say nothing."""

import time

import pytest

from antiphon.inference_worker.engines.backend.processor import BackendProcessor
from antiphon.inference_worker.engines.factory import build_processor, examine_engine
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError, EngineLost
from support.backend_server import DIE, ScriptedBackend, text

from .conftest import Connect
from .test_backend_duplex import CONFIG, SHORT, replies, step

AWAY = "http://127.0.0.1:1"


def open_duplex(engine: BackendProcessor) -> DuplexView:
    view = engine.set_duplex_mode()
    view.prepare("", CONFIG)
    return view


def wait_for_slots(engine: BackendProcessor, unusable: int) -> None:
    by = time.monotonic() + 60
    while engine.unusable_slots != unusable:
        assert time.monotonic() < by, f"{engine.unusable_slots} slots are unusable"
        time.sleep(0.02)


def test_a_lost_connection_ends_its_session_only(connect: Connect) -> None:
    servers = [ScriptedBackend(is_llama=False) for _ in range(2)]
    with servers[0].running(), servers[1].running():
        engine = connect(*servers)
        wait_for_slots(engine, 0)
        lost = open_duplex(engine)
        broken = servers[0] if servers[0].sessions else servers[1]
        other = open_duplex(engine)
        replies(broken, [DIE])
        with pytest.raises(EngineLost, match="the connection to the backend server is lost"):
            step(lost)
        lost.cleanup()
        assert engine.unusable_slots == 1
        assert step(other).is_listen
        broken.healthy = True
        wait_for_slots(engine, 0)
        other.cleanup()


def test_a_server_that_has_died_is_used_when_it_answers_again(connect: Connect) -> None:
    server = ScriptedBackend(is_llama=False)
    with server.running():
        engine = connect(server)
        view = open_duplex(engine)
    with pytest.raises(EngineLost, match="is lost"):
        step(view)
    view.cleanup()
    assert engine.unusable_slots == 1
    impatient = engine.set_duplex_mode()
    impatient.stop()
    with pytest.raises(EngineLost, match=f"no backend server is free: .*{server.address}"):
        impatient.prepare("", CONFIG)
    with server.running(int(server.address.rpartition(":")[2])):
        wait_for_slots(engine, 0)
        view = engine.set_duplex_mode()
        view.prepare("", CONFIG)
        assert step(view).is_listen
        view.cleanup()


def test_no_server_answers_at_the_start() -> None:
    options = {"addresses": [AWAY], "start_timeout_s": 0}
    engine = build_processor("backend", slots=1, options=options)
    with pytest.raises(EngineLoadError, match="no backend server answers"):
        engine.load(lambda _: None)
    engine.close()


def test_a_server_that_is_away_is_used_when_it_answers(
    demo: ScriptedBackend, connect: Connect
) -> None:
    demo.healthy = False
    ready = ScriptedBackend(is_llama=False)
    with ready.running():
        engine = connect(demo, ready)
        assert engine.unusable_slots == 1
        demo.healthy = True
        wait_for_slots(engine, 0)
        views = [open_duplex(engine) for _ in range(2)]
        assert (len(demo.sessions), len(ready.sessions)) == (1, 1)
        for view in views:
            view.cleanup()


def test_a_session_is_opened_on_another_server(demo: ScriptedBackend, connect: Connect) -> None:
    with ScriptedBackend(is_llama=False).running() as gone:
        engine = connect(gone, demo)
        wait_for_slots(engine, 0)
    view = open_duplex(engine)
    assert step(view).is_listen
    assert len(demo.sessions) == 1
    assert engine.unusable_slots == 1


def test_a_refusal_has_the_servers_reason(demo: ScriptedBackend, connect: Connect) -> None:
    demo.refusal = "voice_audio_decode_failed"
    with pytest.raises(EngineError, match="refuses the session: voice_audio_decode_failed"):
        open_duplex(connect(demo))


def test_an_end_by_the_server_has_its_reason(demo: ScriptedBackend, connect: Connect) -> None:
    engine = connect(demo)
    closed = {"type": "session.closed", "reason": "backend_error", "diagnostic": {"message": "OOM"}}
    replies(demo, [closed])
    view = open_duplex(engine)
    with pytest.raises(EngineLost, match="has ended the session: backend_error: OOM"):
        step(view)
    view.cleanup()
    assert engine.unusable_slots == 0


def test_a_server_that_says_nothing_is_given_up(demo: ScriptedBackend, connect: Connect) -> None:
    replies(demo, [], [], [])
    view = open_duplex(connect(demo, stall_timeout_s=0.2))
    assert step(view, SHORT).is_listen
    assert step(view, SHORT).is_listen
    with pytest.raises(EngineLost, match=r"has sent nothing for 0\.2 s"):
        step(view, SHORT)


def test_unreadable_messages_end_the_session(demo: ScriptedBackend, connect: Connect) -> None:
    replies(demo, [{**text("x"), "type": 7}, {"type": "response.output.delta"}])
    view = open_duplex(connect(demo))
    with pytest.raises(EngineLost, match="unreadable message"):
        step(view)


def test_closing_twice_has_no_effect(demo: ScriptedBackend, connect: Connect) -> None:
    engine = connect(demo)
    view = open_duplex(engine)
    view.cleanup()
    view.cleanup()
    assert demo.closed == ["s1"]
    open_duplex(engine).cleanup()
    assert demo.closed == ["s1", "s2"]


def test_a_session_that_was_not_closed_frees_its_server_later(
    demo: ScriptedBackend, connect: Connect
) -> None:
    """A server that has another session closes the connection; the view waits until it is free."""
    engine = connect(demo)
    demo.busy_for = 1
    view = open_duplex(engine)
    assert step(view).is_listen
    assert demo.busy_for == 0


def test_doctor_names_the_servers_that_do_not_answer(demo: ScriptedBackend) -> None:
    findings = examine_engine("backend", 2, None, {"addresses": [demo.address, AWAY]})
    assert [finding.about for finding in findings] == [demo.address, AWAY]


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["127.0.0.1:9060"], "option addresses.0: .*pattern"),
        ([AWAY, AWAY], "an address is listed twice"),
        ([], "option addresses: .*at least 1"),
    ],
)
def test_wrong_addresses_are_named(addresses: list[str], words: str) -> None:
    with pytest.raises(EngineLoadError, match=words):
        build_processor("backend", slots=2, options={"addresses": addresses})


def test_servers_of_one_session_need_as_many_slots(demo: ScriptedBackend) -> None:
    options = {"addresses": [demo.address]}
    engine = build_processor("backend", slots=2, options=options)
    with pytest.raises(EngineLoadError, match="1 of them need --slots 1"):
        engine.load(lambda _: None)
    engine.close()
    [answers, slots] = examine_engine("backend", 2, None, options)
    assert answers.found == "answers: the demo's backend"
    assert (slots.about, slots.remedy) == ("slots", "set ANTIPHON_SLOTS")
