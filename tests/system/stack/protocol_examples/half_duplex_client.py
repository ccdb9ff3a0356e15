"""The example client of the half-duplex protocol's documentation.

Only the URL and the loading of audio differ from the document; `test_documented_examples.py` runs this file.
"""

import asyncio
import base64
import json
import sys

import numpy as np
import soundfile as sf
import websockets


def load_ref_audio(path: str) -> str:
    audio, _ = sf.read(path, dtype="float32")
    return base64.b64encode(audio.tobytes()).decode()


def audio_file_to_chunks(path, chunk_duration=0.5, sr=16000):
    audio, _ = sf.read(path, dtype="float32")
    chunk_size = int(sr * chunk_duration)
    for i in range(0, len(audio), chunk_size):
        yield base64.b64encode(np.ascontiguousarray(audio[i : i + chunk_size]).tobytes()).decode()


async def half_duplex_session(
    audio_path: str,
    server="wss://localhost:8006",
    ref_audio_path: str | None = "ref.wav",
):
    session_id = f"hdx_{id(object()):x}"
    url = f"{server}/ws/half_duplex/{session_id}"

    async with websockets.connect(url) as ws:
        while True:
            msg = json.loads(await ws.recv())
            if msg["type"] == "queue_done":
                break
            print(f"Queued at #{msg.get('position')}")

        ref_b64 = load_ref_audio(ref_audio_path) if ref_audio_path else None
        system_content = (
            [
                {"type": "text", "text": "Mimic the voice from the audio sample."},
                {"type": "audio", "data": ref_b64},
                {"type": "text", "text": "You are a helpful assistant. Reply naturally."},
            ]
            if ref_b64
            else None
        )
        prepare_msg = {
            "type": "prepare",
            "config": {
                "vad": {"threshold": 0.8, "min_silence_duration_ms": 800},
                "generation": {"max_new_tokens": 256, "temperature": 0.7},
                "tts": {"enabled": True},
                "session": {"timeout_s": 60},
            },
        }
        if system_content:
            prepare_msg["system_content"] = system_content
        await ws.send(json.dumps(prepare_msg))

        msg = json.loads(await ws.recv())
        assert msg["type"] == "prepared"
        print(f"Session ready: {msg['session_id']}")

        async def send_audio():
            for chunk_b64 in audio_file_to_chunks(audio_path):
                await ws.send(json.dumps({"type": "audio_chunk", "audio_base64": chunk_b64}))
                await asyncio.sleep(0.5)
            await asyncio.sleep(5)
            await ws.send(json.dumps({"type": "stop"}))

        async def recv_messages():
            async for raw in ws:
                msg = json.loads(raw)
                if msg["type"] == "vad_state":
                    print("Speaking..." if msg["speaking"] else "Stopped speaking")
                elif msg["type"] == "generating":
                    print(f"Generating ({msg['speech_duration_ms']}ms speech)")
                elif msg["type"] == "chunk":
                    if msg.get("text_delta"):
                        print(msg["text_delta"], end="", flush=True)
                elif msg["type"] == "turn_done":
                    print(f"\n--- Turn {msg['turn_index']} done ---")
                elif msg["type"] in ("stopped", "timeout"):
                    break

        await asyncio.gather(send_audio(), recv_messages())


asyncio.run(half_duplex_session(sys.argv[1], server=sys.argv[2], ref_audio_path=sys.argv[3]))
