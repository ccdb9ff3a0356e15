"""vLLM-Omni: full duplex over its WebSocket `/v1/realtime`, turns over its chat completions."""
