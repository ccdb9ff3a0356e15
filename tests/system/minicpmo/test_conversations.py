"""Conversations over sockets: edge, Redis, worker and the tiny model, in real processes."""

import asyncio
from collections.abc import Iterator

import pytest

from antiphon.client.chat import ask
from antiphon.client.duplex import connect_duplex
from antiphon.client.errors import ServerError
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, VideoPart
from antiphon.shared_schemas.messages.chat import ChatGeneration
from support.minicpmo import golden_set
from support.stack import Stack, new_stack
from support.video_files import video

SESSIONS = 3
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0, barge_in=False)
Said = list[tuple[bool, str, bool]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("minicpmo")) as running:
        running.edge()
        options = {"engine_options": '{"device": "cpu"}', "model_path": golden_set.CHECKPOINT}
        running.worker("minicpmo", slots=SESSIONS, **options)
        yield running


async def conversation(url: str) -> Said:
    wave, said = golden_set.waves()["w_window"], []
    async with connect_duplex(url) as session:
        await session.prepare(golden_set.system_prompt("g_window_basic"), config=GREEDY)
        results = aiter(session.results())
        for n in range(4):
            await session.send_audio(wave[n * 16000 : (n + 1) * 16000])
            async with asyncio.timeout(90):
                unit = await anext(results)
            said.append((unit.is_listen, unit.text, unit.end_of_turn))
    return said


async def test_three_conversations_equal_the_reference(stack: Stack) -> None:
    talks = await asyncio.gather(*(conversation(stack.ws_url) for _ in range(SESSIONS)))
    units = golden_set.facts("g_window_basic")["units"][:4]
    want = [(u["is_listen"], u["text"], u["end_of_turn"]) for u in units]
    assert talks == [want] * SESSIONS


async def test_a_chat_about_a_video(stack: Stack) -> None:
    film = VideoPart(video(seconds=2, sound=golden_set.waves()["w_user"][:32000]), stack_frames=2)
    history = [ConversationMessage(Role.USER, (film, TextPart("what is this?")))]
    brief = ChatGeneration(max_new_tokens=4, do_sample=False)
    async with ask(stack.ws_url, history, generation=brief, options={"omni_mode": True}) as answer:
        done = await answer.whole()
    assert done.generated_tokens <= 4
    assert answer.input_tokens is not None
    assert answer.input_tokens > 2 * (66 + 12 + 66)  # per second: a picture, its audio, a sheet


async def test_an_invalid_video_is_refused_by_name(stack: Stack) -> None:
    broken = VideoPart(video(seconds=1)[:200])
    history = [ConversationMessage(Role.USER, (TextPart("what is this?"), broken))]
    async with ask(stack.ws_url, history) as answer:
        with pytest.raises(ServerError) as refused:
            await answer.whole()
    assert refused.value.field == "messages.0.content.1"
