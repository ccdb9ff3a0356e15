"""An agent of LiveKit speaks with an edge. Recordings stand for a room; each interrupts the answer before.

python livekit_agent.py realtime|live question.wav interruption.wav
"""

import asyncio
import sys
import wave

from livekit import rtc
from livekit.agents import Agent, AgentSession, ConversationItemAddedEvent, io
from livekit.agents.llm import ChatMessage
from livekit.plugins import openai

models = {
    "realtime": openai.realtime.RealtimeModel(
        base_url="http://127.0.0.1:8006/v1", api_key="none", model="any"
    ),
    "live": openai.realtime.GPTLiveModel(
        base_url="http://127.0.0.1:8006/v1", api_key="none", delegation="client"
    ),
}
kind, *recordings = sys.argv[1:]


class Microphone(io.AudioInput):
    """Says recordings (16 kHz, mono), and silence at all other times."""

    sound = b""

    def say(self, name: str) -> None:
        with wave.open(name) as recording:
            self.sound = recording.readframes(recording.getnframes())

    async def __anext__(self) -> rtc.AudioFrame:
        await asyncio.sleep(0.1)
        sound, self.sound = self.sound[:3200].ljust(3200, b"\0"), self.sound[3200:]
        return rtc.AudioFrame(sound, 16000, 1, 1600)


class Loudspeaker(io.AudioOutput):
    """Plays in real time, and keeps the last answer."""

    def __init__(self) -> None:
        can = io.AudioOutputCapabilities(pause=False)
        super().__init__(label="loudspeaker", capabilities=can, sample_rate=24000)
        self.speaks = asyncio.Event()
        self.sound = self.last = b""

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self.sound:
            self.speaks.set()
        self.sound += frame.data
        await asyncio.sleep(frame.duration)

    def flush(self) -> None:
        super().flush()
        self.finish(interrupted=False)

    def clear_buffer(self) -> None:
        self.finish(interrupted=True)

    def finish(self, *, interrupted: bool) -> None:
        if self.sound:
            self.last, self.sound = self.sound, b""
            seconds = len(self.last) / 48000
            self.on_playback_finished(playback_position=seconds, interrupted=interrupted)


async def main() -> None:
    microphone, loudspeaker = Microphone(label="microphone"), Loudspeaker()
    answered = asyncio.Event()
    session = AgentSession(llm=models[kind])
    session.input.audio, session.output.audio = microphone, loudspeaker
    session.on("error", lambda event: sys.exit(f"error: {event.error.error}"))

    @session.on("conversation_item_added")
    def show(event: ConversationItemAddedEvent) -> None:
        if isinstance(event.item, ChatMessage):
            ending = " (interrupted)" if event.item.interrupted else ""
            print(f"{event.item.role}: {event.item.text_content}{ending}", flush=True)
            if event.item.role == "assistant":
                answered.set()

    await session.start(Agent(instructions="Be brief."))
    for name in recordings:  # each interrupts the answer to the one before
        loudspeaker.speaks.clear()
        microphone.say(name)
        await loudspeaker.speaks.wait()
        answered.clear()
    await answered.wait()
    await session.aclose()
    with wave.open("reply.wav", "wb") as reply:
        reply.setparams((1, 2, 24000, 0, "NONE", "none"))
        reply.writeframes(loudspeaker.last)


asyncio.run(main())
