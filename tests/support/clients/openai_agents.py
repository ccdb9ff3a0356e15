"""OpenAI's Agents SDK: a question, another one that interrupts its answer, and a third that needs a tool.

openai_agents.py URL KEY QUESTION.wav INTERRUPTION.wav TOOL_QUESTION.wav    # 24 kHz; writes reply.wav
"""

import asyncio
import sys
import wave
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession

url, key, *files = sys.argv[1:]
questions = []
for name in files:
    with wave.open(name) as recording:
        questions.append(recording.readframes(recording.getnframes()))


@function_tool
def time(zone: str) -> str:
    """The time."""
    print("tool:", zone)
    return "12:00"


async def microphone(session: RealtimeSession, to_say: asyncio.Queue[bytes]) -> None:
    """Never stops: silence, unless there is something to say."""
    while True:
        speech = b"" if to_say.empty() else to_say.get_nowait()
        for start in range(0, max(len(speech), 1), 4800):
            await session.send_audio(speech[start : start + 4800].ljust(4800, b"\0"))
            await asyncio.sleep(0.1)


async def main() -> None:
    settings: Any = {"model_name": "any", "audio": {"input": {"transcription": {"model": "any"}}}}
    agent = RealtimeAgent(name="Assistant", instructions="Be brief.", tools=[time])
    runner = RealtimeRunner(agent, config={"model_settings": settings})
    session = await runner.run(model_config={"url": url, "api_key": key})
    async with session:
        to_say: asyncio.Queue[bytes] = asyncio.Queue()
        speaking = asyncio.create_task(microphone(session, to_say))
        await converse(session, to_say)
        speaking.cancel()
        for item in session._history:
            for part in getattr(item, "content", ()):
                print(f"{item.role}:", getattr(part, "transcript", None))


async def converse(session: RealtimeSession, to_say: asyncio.Queue[bytes]) -> None:
    """Until the fourth answer: the second ends whole, the third is the call of the tool."""
    reply, answers = b"", 0
    to_say.put_nowait(questions[0])
    async for event in session:
        if event.type == "error":
            raise SystemExit(f"error: {event.error}")
        if event.type == "audio":
            if not reply and answers == 0:
                to_say.put_nowait(questions[1])
            reply += event.audio.data
        elif event.type == "audio_interrupted":
            print("interrupted")
        elif event.type == "agent_end":
            answers += 1
            if answers == 2:
                save(reply)
                await asyncio.sleep(len(reply) / 48000)  # it is played
                to_say.put_nowait(questions[2])
            if answers == 4:
                return
            reply = b""


def save(sound: bytes) -> None:
    with wave.open("reply.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(sound)


asyncio.run(main())
