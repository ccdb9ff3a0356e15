"""Programs of others for OpenAI's voice APIs, unmodified but for address and key, against real processes."""

import asyncio
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16
from support.chromium import in_ci
from support.client_programs import CLIENTS, Run, are_installed, run_client
from support.llm_server import MODEL, Answer, delta, says, scripted_server
from support.speech import say, transcribe, words
from support.stack import Stack, new_stack
from support.synthetic_speech import GERMANY, ITALY
from support.tls import TestAuthority, tls_proxy

pytestmark = [
    pytest.mark.extended,
    pytest.mark.speech,
    pytest.mark.skipif(
        not in_ci() and not are_installed(),
        reason="install the programs with: PYTHONPATH=tests python -m support.debian all",
    ),
]

KEY = "the-key-of-other-clients"
WRONG = "a-wrong-key-of-other-clients"
EXAMPLES = Path(__file__).parents[3] / "examples"
TIME = "What time is it?"
BERLIN = ("Berlin was not built in a day. ", "It is the capital of Germany. ")
CALL = {"index": 0, "id": "x", "function": {"name": "time", "arguments": '{"zone": "UTC"}'}}
Questions = dict[int, list[Path]]


def _answer(request: dict[str, Any]) -> Answer:
    """An answer that does not end by itself, a call of a function, or a short answer."""
    last = request["messages"][-1]
    text = str(last["content"]).lower()
    if last["role"] == "tool":
        return Answer(says(f"It is {text}."))
    if "germany" in text:
        return Answer([delta(content=sentence) for sentence in BERLIN], hold=True)
    if "time" in text and request.get("tools"):
        return Answer([delta(tool_calls=[CALL]), delta("tool_calls")])
    return Answer(says("The capital of Italy is Rome."))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with scripted_server() as model, new_stack(tmp_path_factory.mktemp("clients")) as running:
        model.script = _answer
        running.edge(api_keys=KEY)
        running.worker("local", slots=2, llm_url=model.url, llm_model=MODEL)
        yield running


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    """By the rate: the question, what interrupts its answer, and a question for a function."""
    folder, found = tmp_path_factory.mktemp("questions"), {}
    for rate in (INPUT_RATE, OUTPUT_RATE):
        found[rate] = [folder / f"{rate}-{name}.wav" for name in ("first", "second", "third")]
        for path, text in zip(found[rate], (GERMANY, ITALY, TIME), strict=True):
            _write(path, soxr.resample(say(text), INPUT_RATE, rate), rate)
    return found


def _write(path: Path, samples: Samples, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", "none"))
        file.writeframes(to_pcm16(samples).tobytes())


def _program(name: str, stack: Stack, key: str) -> str:
    """An example with another address and another key."""
    program = (EXAMPLES / name).read_text()
    here = stack.http_url.removeprefix("http://")
    return program.replace("127.0.0.1:8006", here).replace('api_key="none"', f'api_key="{key}"')


def _talked(run: Run, *, tells_interruption: bool = True) -> None:
    """The question was heard, its answer was interrupted, and the reply to the interruption is whole.

    That answer would never end by itself. A program may cut its transcript to what was played, even to nothing.
    """
    assert run.status == 0, run.output
    heard = words(run.lines("user"))
    assert {"germany", "capital"} <= {*heard}, run.output
    assert heard.count("capital") == 2
    said = words(run.lines("assistant"))
    assert "interrupted" in run.output or not tells_interruption
    assert "the capital of italy is rome" in " ".join(said), run.output
    assert "rome" in words(transcribe(_reply(run.folder)))


def _reply(folder: Path) -> Samples:
    """Recorded as WAV by the programs in Python, and as bare PCM by the others."""
    if (path := folder / "reply.wav").exists():
        with wave.open(str(path)) as file:
            assert file.getframerate() == OUTPUT_RATE
            data = file.readframes(file.getnframes())
    else:
        data = (folder / "reply.pcm").read_bytes()
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768


def _refused(run: Run, *, tells: str = "401") -> None:
    assert run.status == 1, run.output
    assert tells in run.output, run.output


@pytest.mark.parametrize(
    ("name", "live_error"),
    [("livekit_agent.py", "connection error"), ("pipecat_bot.py", "401")],
)
async def test_an_example(
    stack: Stack, questions: Questions, tmp_path: Path, name: str, live_error: str
) -> None:
    program, wrong = (_program(name, stack, key) for key in (KEY, WRONG))
    files = questions[INPUT_RATE][:2]
    realtime, live, *refused = await asyncio.gather(
        run_client(program, "realtime", *files, folder=tmp_path / "realtime"),
        run_client(program, "live", *files, folder=tmp_path / "live"),
        run_client(wrong, "realtime", *files, folder=tmp_path / "wrong"),
        run_client(wrong, "live", *files, folder=tmp_path / "wrong live"),
    )
    _refused(refused[0])
    _refused(refused[1], tells=live_error)
    _talked(realtime)
    _talked(live, tells_interruption=False)


async def test_openai_agents_for_python(stack: Stack, questions: Questions, tmp_path: Path) -> None:
    program = CLIENTS / "openai_agents.py"
    url = f"{stack.ws_url}/v1/realtime?model=any"
    run, refused = await asyncio.gather(
        run_client(program, url, KEY, *questions[OUTPUT_RATE], folder=tmp_path / "right"),
        run_client(program, url, WRONG, *questions[OUTPUT_RATE], folder=tmp_path / "wrong"),
    )
    _refused(refused)
    assert run.lines("tool") == "UTC"
    last = run.lines("assistant")
    assert "12:00" in last or "twelve" in last
    _talked(run)


async def test_openai_for_javascript(stack: Stack, questions: Questions, tmp_path: Path) -> None:
    files = questions[OUTPUT_RATE][:2]
    agents, plain = CLIENTS / "openai_agents.mjs", CLIENTS / "openai_realtime.mjs"
    url = f"{stack.ws_url}/v1/realtime?model=any"
    authority = TestAuthority(tmp_path)
    context = authority.server_context(asks_client=False)
    trust = {"NODE_EXTRA_CA_CERTS": str(authority.ca)}
    async with tls_proxy(stack.edge_port, context) as port:
        base = f"https://127.0.0.1:{port}/v1"
        runs = await asyncio.gather(
            run_client(agents, url, KEY, *files, folder=tmp_path / "agents"),
            run_client(plain, base, KEY, *files, folder=tmp_path / "plain", environment=trust),
            run_client(agents, url, WRONG, *files, folder=tmp_path / "wrong"),
            run_client(
                plain, base, WRONG, *files, folder=tmp_path / "wrong plain", environment=trust
            ),
        )
    _talked(runs[0])
    _talked(runs[1])
    _refused(runs[2])
    _refused(runs[3])
