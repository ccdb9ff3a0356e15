"""The example client of the duplex protocol's documentation.

Only the URL and the loading of audio differ from the document; `test_documented_examples.py` runs this file.
"""

import asyncio
import base64
import json
import sys
import time

import numpy as np
import soundfile as sf
import websockets


def load_ref_audio(path: str) -> str:
    audio, _ = sf.read(path, dtype="float32")
    return base64.b64encode(audio.tobytes()).decode()


def audio_file_to_1s_chunks(path, sr=16000):
    audio, _ = sf.read(path, dtype="float32")
    for i in range(0, len(audio), sr):
        yield base64.b64encode(np.ascontiguousarray(audio[i : i + sr]).tobytes()).decode()


async def duplex_session(
    audio_path: str,
    server="wss://localhost:8006",
    ref_audio_path: str | None = "ref.wav",
):
    session_id = f"adx_{int(time.time() * 1000):x}"
    url = f"{server}/ws/duplex/{session_id}"

    async with websockets.connect(url) as ws:
        while True:
            msg = json.loads(await ws.recv())
            if msg["type"] == "queue_done":
                break

        prepare_msg = {
            "type": "prepare",
            "prefix_system_prompt": "You are a fun assistant.",
            "config": {
                "generate_audio": True,
                "chunk_ms": 1000,
                "temperature": 0.7,
                "force_listen_count": 3,
            },
        }
        if ref_audio_path:
            prepare_msg["ref_audio_base64"] = load_ref_audio(ref_audio_path)
        await ws.send(json.dumps(prepare_msg))

        msg = json.loads(await ws.recv())
        assert msg["type"] == "prepared"
        print("Session ready")

        async def send_audio():
            for chunk_b64 in audio_file_to_1s_chunks(audio_path):
                await ws.send(json.dumps({"type": "audio_chunk", "audio": chunk_b64}))
                await asyncio.sleep(1.0)
            await asyncio.sleep(3)
            await ws.send(json.dumps({"type": "stop"}))

        async def recv_results():
            current_text = ""
            async for raw in ws:
                msg = json.loads(raw)
                if msg["type"] == "result":
                    t = msg["current_time"]
                    if msg["is_listen"]:
                        print(f"[{t}ms] Listening ({msg['cost_all_ms']:.0f}ms)")
                    else:
                        current_text += msg.get("text", "")
                        cost = f"({msg['cost_all_ms']:.0f}ms)"
                        print(f"[{t}ms] Speaking: {msg.get('text', '')!r} {cost}")
                        if msg["end_of_turn"]:
                            print(f"  Turn ended: {current_text!r}")
                            current_text = ""
                elif msg["type"] in ("stopped", "timeout"):
                    print(f"Session ended: {msg['type']}")
                    break

        await asyncio.gather(send_audio(), recv_results())


asyncio.run(duplex_session(sys.argv[1], server=sys.argv[2], ref_audio_path=sys.argv[3]))
