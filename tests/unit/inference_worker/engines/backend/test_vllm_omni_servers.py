"""vLLM-Omni's limits, keys, versions and modes; what `antiphon doctor` says about a server."""

import time
from pathlib import Path

import pytest

from antiphon.inference_worker.engines.backend import server_pool
from antiphon.inference_worker.engines.backend.processor import BackendProcessor
from antiphon.inference_worker.engines.factory import build_processor, examine_engine
from antiphon.inference_worker.engines.processor import ChatView, DuplexView
from antiphon.inference_worker.engines.types import EngineBusy, EngineLoadError
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.findings import FindingStatus
from antiphon.shared_schemas.states import SessionKind
from support.backend_server import ScriptedBackend
from support.tls import TestAuthority
from support.vllm_omni_server import ScriptedVllmOmni, error

from .conftest import Connect
from .test_backend_duplex import step
from .test_backend_failures import AWAY, wait_for_slots
from .test_vllm_omni_duplex import SECOND, open_view


@pytest.fixture(autouse=True)
def _short_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pool, "_CHECK_INTERVAL_S", 0.05)


DUPLEX = {SessionKind.AUDIO_DUPLEX, SessionKind.OMNI_DUPLEX}
TURNS = {SessionKind.HALF_DUPLEX, SessionKind.CHAT, SessionKind.TURNS}


def found(server: ScriptedVllmOmni, slots: int = 4, **options: object) -> tuple[bool, str]:
    [finding] = examine_engine("backend", slots, None, {"addresses": [server.address], **options})
    return finding.verdict is FindingStatus.OK, finding.found


def test_the_slots_are_the_servers_sessions(omni: ScriptedVllmOmni, connect: Connect) -> None:
    engine = connect(omni, slots=16)
    assert 16 - engine.unusable_slots == omni.limit == 4
    assert omni.active == 0  # it has closed the sessions that it counted with
    views = [open_view(engine) for _ in range(4)]
    assert omni.active == 4
    with pytest.raises(EngineBusy, match="no backend server is free: all are in use"):
        open_view(engine)
    views.pop().cleanup()
    views.append(open_view(engine))
    for view in views:
        view.cleanup()
    assert omni.active == 0
    assert omni.faults == []


def test_a_server_that_admits_more_has_the_workers_slots(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    assert connect(omni, slots=3).unusable_slots == 0
    assert omni.opened == 3


def test_sessions_are_spread_over_the_servers(connect: Connect) -> None:
    servers = [ScriptedVllmOmni(limit=2) for _ in range(2)]
    with servers[0].running(), servers[1].running():
        engine = connect(*servers, slots=16)
        wait_for_slots(engine, 12)
        views = [open_view(engine) for _ in range(2)]
        assert [server.active for server in servers] == [1, 1]
        for view in views:
            view.cleanup()


def test_a_server_that_others_fill_takes_no_session_until_it_has_room(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    """Its slots are gone meanwhile, so the sessions wait in the queue."""
    ours, theirs = connect(omni, slots=4), connect(omni, slots=4)
    others = [open_view(theirs) for _ in range(3)]
    mine = open_view(ours)
    with pytest.raises(EngineBusy, match="is full: other programs use 3 of its 4 sessions"):
        open_view(ours)
    assert ours.unusable_slots == 3
    assert "other programs use 3 of its 4" in ours.trouble
    for view in others:
        view.cleanup()
    wait_for_slots(ours, 0)
    assert ours.trouble == ""
    assert step(mine, SECOND).is_listen
    mine.cleanup()


def test_a_worker_starts_on_a_full_server(omni: ScriptedVllmOmni, connect: Connect) -> None:
    other = connect(omni, slots=4)
    views = [open_view(other) for _ in range(4)]
    engine = connect(omni, slots=4)
    assert engine.unusable_slots == 4
    for view in views:
        view.cleanup()
    wait_for_slots(engine, 0)


def test_a_server_that_was_started_again_may_have_another_limit(connect: Connect) -> None:
    server = ScriptedVllmOmni(limit=2)
    with server.running():
        engine = connect(server, slots=8)
        view = open_view(engine)
        port = int(server.address.rpartition(":")[2])
        server.status = 503
        server.forget()
        with pytest.raises(EngineBusy):
            step(view, SECOND)
        view.cleanup()
    assert server.address in engine.trouble
    server.limit, server.status = 5, 200
    with server.running(port):
        wait_for_slots(engine, 3)
        open_view(engine).cleanup()


@pytest.mark.parametrize("option", ["key_file", "headers"])
def test_a_key_is_sent_with_every_request(
    omni: ScriptedVllmOmni, connect: Connect, tmp_path: Path, option: str
) -> None:
    omni.key = "secret"
    works, text = found(omni)
    assert not works
    assert "refuses the key: set the option `key_file`" in text
    (tmp_path / "key").write_text("secret\n")
    values: dict[str, object] = {"key_file": str(tmp_path / "key")}
    if option == "headers":
        values = {"headers": {"Authorization": "Bearer secret", "X-Route": "a"}}
    assert found(omni, **values)[0]
    engine = connect(omni, slots=2, **values)
    assert step(open_view(engine), SECOND).is_listen
    assert ask(engine.set_chat_mode()) == "Well, yes."
    seen = omni.headers_seen[-1]
    assert seen["authorization"] == "Bearer secret"
    assert seen.get("x-route") == ("a" if option == "headers" else None)


def ask(view: ChatView) -> str:
    view.prefill([ConversationMessage(Role.USER, (TextPart("Well?"),))], ChatOptions())
    return "".join(delta.text for delta in view.generate())


def test_tls_with_a_certificate_of_ones_own(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, server = TestAuthority(tmp_path), ScriptedVllmOmni()
    files = (str(authority.server_certificate), str(authority.server_key))
    with server.running(certificate=files):
        works, text = found(server)
        assert not works
        assert "certificate verify failed" in text
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        engine = connect(server, slots=2)
        assert step(open_view(engine), SECOND).is_listen
        assert ask(engine.set_chat_mode()) == "Well, yes."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"headers": {"X Y": "1"}}, "'X Y' is no header of HTTP"),
        ({"headers": {"X": "1\r\nY: 2"}}, "'X' is no header of HTTP, or its value is not plain"),
        ({"key_file": "/nowhere"}, "option key_file: .*/nowhere: No such file"),
    ],
)
def test_wrong_headers_and_keys_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(EngineLoadError, match=words):
        build_processor("backend", options={"addresses": [AWAY], **options})


def test_a_server_in_turn_mode_offers_turns_only(omni: ScriptedVllmOmni, connect: Connect) -> None:
    omni.offers_duplex = False
    engine = connect(omni, slots=3)
    assert engine.info.kinds == TURNS
    assert engine.unusable_slots == 0
    assert ask(engine.set_chat_mode()) == "Well, yes."
    assert "chat and half duplex" in found(omni)[1]
    assert "full duplex" not in found(omni)[1]


def test_a_server_without_chat_offers_full_duplex_only(
    omni: ScriptedVllmOmni, connect: Connect
) -> None:
    omni.offers_chat = False
    assert connect(omni).info.kinds == DUPLEX


def test_doctor_describes_the_server(omni: ScriptedVllmOmni) -> None:
    works, text = found(omni)
    assert works
    assert text == (
        "answers: vLLM-Omni on vLLM 0.32.0, openbmb/MiniCPM-o-4_5: full duplex, resume, "
        "reports of playback, chat and half duplex"
    )
    assert omni.active == 0


def test_doctor_on_a_full_server_says_its_limit(omni: ScriptedVllmOmni, connect: Connect) -> None:
    engine = connect(omni, slots=4)
    views: list[DuplexView] = [open_view(engine) for _ in range(4)]
    works, text = found(omni)
    assert works
    assert text.endswith("; at most 4 sessions, and all are in use")
    for view in views:
        view.cleanup()


def test_servers_that_cannot_be_used_are_named(omni: ScriptedVllmOmni) -> None:
    omni.level = "turn_based_duplex"
    assert "implementation_level 'turn_based_duplex'; 'model_native" in found(omni)[1]
    omni.level = "model_native_duplex"
    omni.offers_duplex = omni.offers_chat = False
    assert "offers neither full duplex (unsupported" in found(omni)[1]
    omni.offers_duplex, omni.refusal = True, error("ref_audio_required", "no voice")
    assert "refuses the session: ref_audio_required: no voice" in found(omni)[1]
    omni.health = {"ok": True}
    assert "neither llama-omni-server, the demo's backend, nor vLLM-Omni" in found(omni)[1]
    omni.status = 503
    assert "/health answered 503" in found(omni)[1]


def test_servers_of_two_protocols_need_two_workers(
    omni: ScriptedVllmOmni, demo: ScriptedBackend, connect: Connect
) -> None:
    findings = examine_engine("backend", 2, None, {"addresses": [omni.address, demo.address]})
    assert findings[-1].found == "the servers speak different protocols"
    demo.healthy = False
    engine = connect(omni, demo)
    demo.healthy = True
    wait_for_trouble(engine, "is the demo's backend: it needs a separate worker")


def wait_for_trouble(engine: BackendProcessor, words: str) -> None:
    by = time.monotonic() + 60
    while words not in engine.trouble:
        assert time.monotonic() < by, engine.trouble
        time.sleep(0.02)


def test_kinds_before_a_server_has_answered() -> None:
    """The registry shows the engine while it loads."""
    engine = build_processor("backend", options={"addresses": [AWAY]})
    assert engine.info.kinds == DUPLEX | TURNS
    assert engine.unusable_slots == 0
    engine.close()


def test_a_health_page_that_is_no_object(omni: ScriptedVllmOmni) -> None:
    omni.health = []  # type: ignore[assignment]
    assert "GET /health answered with no JSON object" in found(omni)[1]
