"""The HTTP routes against their OpenAPI document, tried by Schemathesis."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import orjson
import pytest

from support.stack import Stack, until

pytestmark = pytest.mark.extended

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "response_schema_conformance",
    "content_type_conformance",
    "response_headers_conformance",
)
DRAIN = "/api/admin/workers/{worker_id}/drain"
"""Excluded: it would stop the only worker, and all other chats would wait."""
QUESTION = {"messages": [{"role": "user", "content": "Hello."}], "tts": {"enabled": True}}
AT_ONCE = {"prefill_ms": 0, "speak_ms": 0}


async def _recording(stack: Stack) -> str:
    """The id of a recording that is complete."""
    async with httpx.AsyncClient(base_url=stack.http_url) as http:
        answer = (await http.post("/api/chat", json=QUESTION)).json()
        recording: str = answer["recording_session_id"]
        meta = stack.data_dir / "sessions" / recording / "meta.json"
        await until(lambda: meta.is_file() and b'"complete"' in meta.read_bytes())
    return recording


def _config(recording: str) -> str:
    """Half of the requests are for something that exists."""
    known = {
        "session_id": [recording],
        "asset_path": ["meta.json", "recording.json"],
        "voice_id": ["english", "emma"],
        "mode": ["audio_duplex", "omni"],
        "preset_id": ["assistant_en", "interpreter"],
        "app_id": ["turnbased", "omni"],
    }
    lines = [f"dictionaries.{name}.values = {values}" for name, values in known.items()]
    lines += [
        f'parameters."path.{name}" = {{ dictionary = "{name}", probability = 0.5 }}'
        for name in known
    ]
    return "\n".join(lines)


async def test_every_route_answers_as_documented(stack: Stack, tmp_path: Path) -> None:
    stack.edge()
    stack.worker(engine_options=orjson.dumps(AT_ONCE).decode())
    stack.recorder(recorder_settle_s=0.1)
    config = tmp_path / "schemathesis.toml"
    config.write_text(_config(await _recording(stack)))
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *(Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run"),
            *(f"{stack.http_url}/openapi.json", "--checks", ",".join(CHECKS)),
            *("--exclude-path", DRAIN, "--max-examples", "6", "--request-timeout", "30"),
            *("--seed", "1", "--continue-on-failure", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "Test cases:" in done.stdout
