"""A bot of Pipecat speaks with an edge. Recordings stand for a transport; each interrupts the answer before.

python pipecat_bot.py realtime|live question.wav interruption.wav
"""

import asyncio
import sys
import wave

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    LLMRunFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.live.llm import OpenAILiveLLMService
from pipecat.services.openai.realtime.events import (
    AudioConfiguration,
    AudioInput,
    InputAudioTranscription,
    SessionProperties,
)
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

transcribed = SessionProperties(
    audio=AudioConfiguration(input=AudioInput(transcription=InputAudioTranscription(model="any")))
)
services = {
    "realtime": OpenAIRealtimeLLMService(
        api_key="none",
        base_url="ws://127.0.0.1:8006/v1/realtime",
        settings=OpenAIRealtimeLLMService.Settings(model="any", session_properties=transcribed),
    ),
    "live": OpenAILiveLLMService(api_key="none", base_url="ws://127.0.0.1:8006/v1/live/sessions"),
}
kind, *recordings = sys.argv[1:]


class Listener(FrameProcessor):
    """Shows what is said, and keeps the sound of the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.speaks = asyncio.Event()
        self.heard_at = 0.0
        self.sound = b""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case UserStartedSpeakingFrame():
                if self.sound:
                    print("interrupted", flush=True)
                self.sound = b""
            case OutputAudioRawFrame():
                if not self.sound:
                    self.speaks.set()
                self.sound += frame.audio
                self.heard_at = asyncio.get_running_loop().time()
            case TranscriptionFrame():
                print("user:", frame.text, flush=True)
            case TTSTextFrame():
                print("assistant:", frame.text, flush=True)
        await self.push_frame(frame, direction)

    async def hear_answer(self) -> None:
        await self.speaks.wait()
        while asyncio.get_running_loop().time() < self.heard_at + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def speak(worker: PipelineWorker, to_say: list[bytes]) -> None:
    """The microphone: silence, unless there is something to say."""
    while True:
        sound = to_say.pop() if to_say else b""
        for start in range(0, max(len(sound), 1), 640):
            piece = sound[start : start + 640].ljust(640, b"\0")
            await worker.queue_frame(InputAudioRawFrame(piece, 16000, 1))
            await asyncio.sleep(0.02)


async def converse(worker: PipelineWorker, listener: Listener) -> None:
    to_say: list[bytes] = []
    speaking = asyncio.create_task(speak(worker, to_say))
    await worker.queue_frame(LLMRunFrame())  # the assistant begins
    await listener.hear_answer()
    for name in recordings:  # each interrupts the answer to the one before
        listener.speaks.clear()
        with wave.open(name) as recording:  # 16 kHz, mono
            to_say.append(recording.readframes(recording.getnframes()))
        await listener.speaks.wait()
    await listener.hear_answer()
    speaking.cancel()
    await worker.queue_frame(EndFrame())


async def main() -> None:
    service, errors = services[kind], list[str]()
    runner = WorkerRunner(handle_sigint=False)

    async def fail(_: FrameProcessor, error: ErrorFrame) -> None:
        errors.append(error.error)
        await runner.cancel()

    service.add_event_handler("on_error", fail)
    context = LLMContext([{"role": "developer", "content": "Say hello."}])
    pair, listener = LLMContextAggregatorPair(context), Listener()
    pipeline = Pipeline([pair.user(), Listener(), service, listener, pair.assistant()])
    worker = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=16000))
    talking = asyncio.create_task(converse(worker, listener))
    await runner.add_workers(worker)
    await runner.run()
    if errors:
        sys.exit(f"error: {errors[0]}")
    await talking
    with wave.open("reply.wav", "wb") as reply:
        reply.setparams((1, 2, 24000, 0, "NONE", "none"))
        reply.writeframes(listener.sound)


asyncio.run(main())
